"""The search over ranks and taus: what stands for the distribution of tau, and the signs of simulated noise."""

import numpy as np

from lrbtl.methods.search import random_bits, tau_quantiles


def test_quantiles_of_tau():
    """Flat evidence leaves the prior: half on none at all, half flat."""
    taus = np.array([0.0, 0.1, 0.2, 0.4])
    np.testing.assert_allclose(tau_quantiles(taus, np.zeros(4)), 0.4 * np.array([0, 0, 2 / 3]), atol=1e-3)
    low = tau_quantiles(taus, np.array([0.0, 0.0, -9.0, -20.0]))
    assert low[0] == low[1] == 0 and 0 < low[2] < 0.1
    high = tau_quantiles(taus, np.array([-90.0, -30.0, 0.0, 0.0]))
    assert (np.diff(high) > 0).all() and high[0] > 0.1


def test_random_bits_belong_to_pairs():
    u, a, b = np.arange(4).repeat(50), np.tile(np.arange(50), 4), np.tile(np.arange(50)[::-1], 4)
    bits = random_bits(u, a, b)
    np.testing.assert_array_equal(random_bits(u[::-1], a[::-1], b[::-1]), bits[::-1])
    each = (bits[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert len(np.unique(bits)) == 200 and np.abs(each.mean(axis=0) - 0.5).max() < 0.15
