"""The distribution of one size from its log likelihood, against integrals on a fine grid."""

import numpy as np
import pytest

from lrbtl.hierarchical.variance_components import SizePosterior, size_posterior


def found_and_exact(log_likelihood, start, largest):
    """The nodes, and quantiles, mean and evidence under a flat prior on a fine grid."""
    found = size_posterior(log_likelihood, start, largest=largest, least=1e-3 * largest, sure=0.05)
    grid = np.linspace(1e-5, largest, 40_001)
    values = np.array([log_likelihood(x) for x in grid])
    density = np.exp(values - values.max())
    reach = np.cumsum(density) / density.sum()
    quantiles = np.interp([0.0416, 0.5, 0.9584], reach, grid)
    return found, quantiles, values.max() + np.log(density.mean()), density @ grid / density.sum()


LIKELIHOODS = {
    "narrow": lambda x: -100.0 * (x - 1.0) ** 2,
    "wide": lambda x: -8.0 * (x - 1.0) ** 2,
    "variance of few": lambda x: -12 * np.log(x**2 + 0.1) / 2 - 4.0 / (x**2 + 0.1),
    "none": lambda x: -20.0 * x**2,
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_nodes_are_quantiles_under_a_flat_prior(name):
    start = {"none": 0.05, "narrow": 1.0}.get(name, 0.9)
    found, quantiles, evidence, mean = found_and_exact(LIKELIHOODS[name], start, 4.0)
    np.testing.assert_allclose([x for x, _ in found.nodes], quantiles, atol=0.05)
    assert sum(weight for _, weight in found.nodes) == pytest.approx(1.0)
    assert found.log_evidence == pytest.approx(evidence, abs=0.15)
    assert sum(x * weight for x, weight in found.nodes) == pytest.approx(mean, abs=0.04)


def test_a_size_that_is_known_is_one_node():
    """Its evidence is the same integral, so that it compares with that of sizes that are not."""
    found, _, evidence, _ = found_and_exact(lambda x: -5000.0 * np.log(x) ** 2, 1.0, 4.0)
    assert found.nodes == [(1.0, 1.0)] and found.log_evidence == pytest.approx(evidence, abs=0.01)
    assert SizePosterior.known(0.3, 2.0) == SizePosterior([(0.3, 1.0)], 2.0)


def test_evidence_without_a_largest_size_does_not_depend_on_where_the_search_ends():
    """Laws of levels are weighed by it: likelihoods with the same integral have the same evidence."""
    narrow, wide = (lambda x, k=k: -0.5 * k * (x - 3.0) ** 2 + 0.5 * np.log(k) for k in (20.0, 5.0))
    found = [size_posterior(each, 3.0, largest=np.inf, least=0.01, sure=0.01).log_evidence for each in (narrow, wide)]
    np.testing.assert_allclose(found, 0.5 * np.log(2 * np.pi), atol=0.15)


def test_sizes_stay_within_their_bounds():
    found = size_posterior(lambda x: 10.0 * x, 0.5, largest=2.0, least=0.01, sure=0.05)
    assert all(0.0 < x <= 2.0 for x, _ in found.nodes) and found.nodes[1][0] > 1.5
    low = size_posterior(lambda x: -30.0 * x, 5.0, largest=2.0, least=0.01, sure=0.05)
    assert all(0.0 < x < 0.3 for x, _ in low.nodes)


def test_without_a_largest_size_the_likelihood_ends_it():
    found = size_posterior(LIKELIHOODS["variance of few"], 0.9, largest=np.inf, least=1e-3, sure=0.05)
    bounded = size_posterior(LIKELIHOODS["variance of few"], 0.9, largest=8.0, least=1e-3, sure=0.05)
    np.testing.assert_allclose([x for x, _ in found.nodes], [x for x, _ in bounded.nodes], rtol=0.02)


def test_the_likelihood_is_asked_for_a_few_times():
    asked = []

    def log_likelihood(x):
        asked.append(x)
        return -4.0 * np.log(x) ** 2

    size_posterior(log_likelihood, 1.0, largest=9.0, least=0.01, sure=0.05)
    assert len(asked) == len(set(asked)) < 12
