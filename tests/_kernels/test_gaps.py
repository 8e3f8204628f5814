"""The largest gap of each draw against NumPy."""

import numpy as np
import pytest

from lrbtl._kernels.gaps import scan_gaps


def test_kernel_equals_numpy():
    rng = np.random.default_rng(0)
    draws, root = rng.standard_normal((11, 6)), rng.standard_normal((6, 6))
    cov = root @ root.T
    variance = np.diag(cov)[:, None] + np.diag(cov) - 2 * cov
    precision = np.divide(1.0, variance, out=np.zeros((6, 6)), where=~np.eye(6, dtype=bool))
    first, second = rng.integers(0, 3, (11, 4)), rng.integers(3, 6, (11, 4))
    beyond, bar = 2.0 + rng.random((11, 4)), 3.0
    own = np.diag(cov)
    floor = 0.5 * bar * own / ((own[:, None] + own) * precision).max(axis=1)
    a, b = np.triu_indices(6, 1)
    for skip in (floor, np.full(6, -1.0)):
        largest, count = np.empty((11, 4)), np.empty((11, 4))
        scan_gaps(draws, first, second, beyond, cov, precision, skip, bar, np.empty(6), largest, count)
        for i, j in np.ndindex(11, 4):
            f, s = first[i, j], second[i, j]
            loading = (cov[f] - cov[s]) * np.sqrt(precision[f, s])
            moved = draws[i] + loading * (beyond[i, j] - (draws[i, f] - draws[i, s]) * np.sqrt(precision[f, s]))
            values = (moved[a] - moved[b]) ** 2 * precision[a, b]
            assert largest[i, j] == pytest.approx(values.max(), rel=1e-12)
            assert count[i, j] == (values > bar).sum()
