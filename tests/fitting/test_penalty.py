"""The penalty against the nuclear norm and finite differences."""

import numpy as np
import pytest

from lrbtl.fitting.local import penalty, penalty_terms
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker, mode_product, unfold
from problems import CASES, SMALL_CASES, differences, random_point, retraction

cases = pytest.mark.parametrize(("shape", "rank"), CASES)


def ridges(space):
    """One ridge per mode, all different."""
    return 0.7 + 0.2 * np.arange(len(space.factors))


def smooth_penalty(space, step, ridge):
    """1/4 sum_k ridge_k [tr(U_k M_k U_k^T) + ||core x_k M_k^-1/2 x_j U_j||^2] with M_k of the start."""
    point = retraction(space, step)
    total = 0.0
    for k, sigma in enumerate(space.point.singular_values):
        scaled = mode_product(point.core, np.diag(sigma**-0.5), k)
        others = [np.eye(len(sigma)) if j == k else factor for j, factor in enumerate(point.factors)]
        total += 0.25 * ridge[k] * np.sum(point.factors[k] ** 2 * sigma)
        total += 0.25 * ridge[k] * np.sum(Tucker(scaled, tuple(others)).dense() ** 2)
    return total


@cases
def test_penalty_is_the_nuclear_norm_and_the_smooth_one_touches_it(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    ridge = ridges(space)
    T = space.point.dense()
    nuclear = 0.5 * sum(lam * np.linalg.svd(unfold(T, k), compute_uv=False).sum() for k, lam in enumerate(ridge))
    assert penalty(space.point, ridge) == pytest.approx(nuclear)
    assert smooth_penalty(space, np.zeros(space.size), ridge) == pytest.approx(nuclear)


@pytest.mark.parametrize(("shape", "rank"), SMALL_CASES)
def test_penalty_gradient_and_hessian(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    ridge = ridges(space)
    gradient, hessians, core_diagonal = penalty_terms(space, ridge)
    zero = np.zeros(space.size)
    np.testing.assert_allclose(gradient, differences(lambda x: smooth_penalty(space, x, ridge), zero), atol=1e-6)
    second = differences(
        lambda x: (
            np.array(
                [
                    smooth_penalty(space, x + 1e-4 * e, ridge) - smooth_penalty(space, x - 1e-4 * e, ridge)
                    for e in np.eye(space.size)
                ]
            )
            / 2e-4
        ),
        zero,
        1e-4,
    )
    for k, part in space.slices.items():
        expected = np.kron(np.eye(len(space.factors[k])), hessians[k])
        np.testing.assert_allclose(second[part, part], expected, atol=1e-4)
    if space.has_core:
        np.testing.assert_allclose(second[space.core_slice, space.core_slice], np.diag(core_diagonal), atol=1e-4)
