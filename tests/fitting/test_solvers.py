"""Quadratic forms in tangent coordinates against dense matrices and finite differences; both solvers agree."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from lrbtl.errors import SingularInformationError, SolverError
from lrbtl.fitting import entries as index_module
from lrbtl.fitting import solvers as information
from lrbtl.fitting.design import CompleteDesign
from lrbtl.fitting.jacobian import eta_at, eta_change, gram_apply, pull_sums
from lrbtl.fitting.solvers import (
    IsotropicSolver,
    accumulate,
    conjugate_gradients,
    diagonal_blocks,
    fix_gauge,
    information_solver,
    invert_blocks,
    touched,
)
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.model.links import logistic_terms
from problems import (
    CASES,
    battle_matrix,
    centring_matrix,
    differences,
    gauge_residual,
    jacobian,
    moved_space,
    random_design,
    random_point,
)

cases = pytest.mark.parametrize(("shape", "rank"), CASES)


def problem(shape, rank, n=60, *, pairs=True):
    space = TangentSpace(random_point(shape, rank, centred=pairs), centred=pairs)
    return space, random_design(shape, n, seed=1, pairs=pairs)


@pytest.mark.parametrize("pairs", [True, False], ids=["pairs", "entries"])
@pytest.mark.parametrize("storage", ["full", "dense", "sparse"])
@cases
def test_gram_is_the_dense_one(shape, rank, storage, pairs, monkeypatch):
    is_sparse = storage == "sparse"
    monkeypatch.setattr(index_module, "FULL", 1e9 if storage == "full" else 0)
    monkeypatch.setattr(information, "SPARSE_BELOW", 2.0 if is_sparse else -1.0)
    space, design = problem(shape, rank, pairs=pairs)
    weight = np.random.default_rng(1).random(len(design.a))
    X, J = battle_matrix(design), jacobian(space)
    expected = J.T @ (X.T * weight) @ X @ J
    K = accumulate(design, space, weight)
    assert sparse.issparse(K.cross) == is_sparse
    np.testing.assert_allclose(K.dense(), expected, atol=1e-10)
    x = np.random.default_rng(2).normal(size=space.size)
    np.testing.assert_allclose(gram_apply(design.entries, space, weight, x), expected @ x, atol=1e-9)
    np.testing.assert_allclose(
        pull_sums(design.entries, space, design.entries.slot_sums(weight)), J.T @ X.T @ weight, atol=1e-10
    )
    np.testing.assert_allclose(eta_at(design.entries, space), X @ space.point.dense().ravel(), atol=1e-11)
    np.testing.assert_allclose(eta_change(design.entries, space, x), X @ J @ x, atol=1e-10)


@cases
def test_hessian_is_the_derivative_of_the_gradient(shape, rank):
    space, design = problem(shape, rank)

    def gradient(x):
        at = moved_space(space, x)
        return -pull_sums(
            design.entries,
            at,
            design.entries.slot_sums(design.count * logistic_terms(eta_at(design.entries, at), design.y)[1]),
        )

    _, score, fisher = logistic_terms(eta_at(design.entries, space), design.y)
    sums = design.entries.slot_sums(design.count * score)
    hessian = accumulate(design, space, design.count * fisher, slot_score=sums).dense()
    np.testing.assert_allclose(hessian, differences(gradient, np.zeros(space.size)), atol=1e-5)


@cases
def test_gradient_is_the_derivative_of_the_loss(shape, rank):
    space, design = problem(shape, rank)

    def loss(x):
        return design.count @ logistic_terms(eta_at(design.entries, moved_space(space, x)), design.y)[0]

    score = logistic_terms(eta_at(design.entries, space), design.y)[1]
    slope = differences(loss, np.zeros(space.size))
    np.testing.assert_allclose(
        -pull_sums(design.entries, space, design.entries.slot_sums(design.count * score)), slope, atol=1e-5
    )


@cases
def test_diagonal_blocks(shape, rank):
    """Those of the sum of weight (e_a e_a^T + e_b e_b^T), which for the models' rows are those of K too."""
    space, design = problem(shape, rank)
    weight = np.random.default_rng(1).random(len(design.a))
    J = np.stack([space.dense(column).ravel() for column in np.eye(space.size)], axis=1)
    touched = np.zeros((shape[0], design.n_contexts))
    for side in (design.a, design.b):
        np.add.at(touched, (side, design.entries.context), weight)
    K = (J.T * touched.ravel()) @ J
    rows, core = diagonal_blocks(design, space, weight)
    for k, part in space.slices.items():
        r = space.factors[k].shape[1]
        for i, block in enumerate(rows[k]):
            at = slice(part.start + i * r, part.start + (i + 1) * r)
            np.testing.assert_allclose(block, K[at, at], atol=1e-10)
    if space.has_core:
        np.testing.assert_allclose(core, K[space.core_slice, space.core_slice], atol=1e-10)
    else:
        assert core is None


@cases
def test_gauge_changes_nothing_on_tangent_vectors(shape, rank):
    space, design = problem(shape, rank, n=300)
    K = accumulate(design, space, design.count)
    J = centring_matrix(space.point.shape) @ jacobian(space)
    Z = np.random.default_rng(0).normal(size=(space.U.shape[0], len(space.V)))
    gamma = space.pull_dense(Z)
    pinv = np.linalg.pinv(K.dense(), rcond=1e-9, hermitian=True)
    solution = fix_gauge(K, space).factor().solve(gamma)
    np.testing.assert_allclose(J @ solution, J @ pinv @ gamma, atol=1e-8)
    assert gauge_residual(space, solution) < 1e-8


def test_at_zero_there_is_no_gauge_to_fix():
    space, design = problem((4, 3, 2), (1, 1, 1), n=300)
    at_zero = design.space(replace(space.point, core=0.0 * space.point.core))
    K = accumulate(design, at_zero, design.count)
    np.testing.assert_array_equal(fix_gauge(K, at_zero).dense(), K.dense())


@cases
def test_conjugate_gradients_agree_with_elimination(shape, rank):
    space, design = problem(shape, rank, n=400)
    weight = design.count * logistic_terms(eta_at(design.entries, space), design.y)[2]
    Z = np.random.default_rng(0).normal(size=(3, space.U.shape[0], len(space.V)))
    gamma = space.pull_dense(Z)
    solutions = [information_solver(design, space, weight, name).solve(gamma) for name in ("direct", "cg")]
    dense = [np.stack([space.dense(x) - space.dense(x).mean(axis=0) for x in s.T]) for s in solutions]
    np.testing.assert_allclose(dense[1], dense[0], atol=1e-8 * np.abs(dense[0]).max())
    np.testing.assert_allclose(gamma.T @ solutions[1], gamma.T @ solutions[0], rtol=1e-8)


@cases
def test_sparse_and_dense_elimination_agree(shape, rank, monkeypatch):
    space, design = problem(shape, rank, n=400)
    gamma = space.pull_dense(np.random.default_rng(0).normal(size=(3, space.U.shape[0], len(space.V))))
    solutions = []
    monkeypatch.setattr(index_module, "FULL", 0)
    for threshold in (-1.0, 2.0):
        monkeypatch.setattr(information, "SPARSE_BELOW", threshold)
        solutions.append(information_solver(design, space, design.count, "direct").solve(gamma))
    np.testing.assert_allclose(solutions[1], solutions[0], atol=1e-9)


@cases
def test_isotropic_solver_is_the_uniform_information(shape, rank):
    space = TangentSpace(random_point(shape, rank))
    atoms = CompleteDesign.of_shape(shape)
    uniform = information_solver(atoms, space, np.full(len(atoms.a), 1 / len(atoms.a)), "direct")
    isotropic = IsotropicSolver(space, atoms.d_eff)
    gamma = space.pull_dense(np.random.default_rng(0).normal(size=(2, space.U.shape[0], len(space.V))))
    x, y = uniform.solve(gamma), isotropic.solve(gamma)
    for column in range(2):
        np.testing.assert_allclose(space.dense(y[:, column]), space.dense(x[:, column]), atol=1e-8)
    inverse = isotropic.inverse()
    full = np.zeros((space.size, space.size))
    full[: space.q, : space.q] = inverse.border
    rl = inverse.blocks.shape[1]
    for j, block in enumerate(inverse.blocks):
        at = slice(space.q + j * rl, space.q + (j + 1) * rl)
        full[at, at] = block
    np.testing.assert_allclose(full @ gamma, y, atol=1e-8)


def test_restricted_design_keeps_cells_of_each_context():
    design = random_design((5, 4), 40)
    keep = np.random.default_rng(0).random(40) < 0.4
    part = design.restricted(np.flatnonzero(keep))
    np.testing.assert_array_equal(part.entries.context, design.entries.context[keep])
    np.testing.assert_array_equal(part.a, design.a[keep])


def thin_problem():
    """Context 0 has a single pair: at rank 2 it leaves one direction open."""
    space, design = problem((6, 5), (2, 2), n=300)
    keep = (design.entries.context != 0) | ((design.a == 0) & (design.b == 1))
    return space, design.restricted(np.flatnonzero(keep))


def test_directions_without_information_are_named_and_only_theirs_touched():
    space, design = thin_problem()
    solver = information_solver(design, space, design.count)
    assert solver.null.shape[1] == 1
    null = space.dense(solver.null[:, 0])
    assert np.abs(null[:, 0]).max() > 0 and np.abs(null[:, 1:]).max() < 1e-8 * np.abs(null).max()
    assert abs(null[0, 0] - null[1, 0]) < 1e-6 * np.abs(null).max()  # what the single pair does inform
    entry, elsewhere, pair = np.zeros((3, 6, 5))
    entry[3, 0] = elsewhere[3, 1] = 1.0
    pair[0, 0], pair[1, 0] = 1.0, -1.0
    gamma = space.pull_dense(np.stack([entry, elsewhere, pair]))
    np.testing.assert_array_equal(touched(solver, gamma), [True, False, False])
    exact = np.linalg.pinv(accumulate(design, space, design.count).dense(), rcond=1e-9, hermitian=True) @ gamma[:, 1:]
    np.testing.assert_allclose(
        gamma[:, 1:].T @ solver.solve(gamma[:, 1:]), gamma[:, 1:].T @ exact, rtol=1e-4, atol=1e-6
    )


def test_conjugate_gradients_refuse_what_has_no_information():
    space, design = thin_problem()
    entry = np.zeros((6, 5))
    entry[3, 0] = 1.0
    solver = information_solver(design, space, design.count, "cg")
    with pytest.raises(SingularInformationError, match="solver='direct'"):
        solver.solve(space.pull_dense(entry))
    with pytest.raises(SolverError, match="all_scores"):
        solver.inverse()


def test_conjugate_gradients_stop_at_negative_curvature():
    diagonal = np.array([2.0, 1.0, -1.0])
    found = conjugate_gradients(lambda x: diagonal * x, lambda x: x, np.ones(3), tol=1e-10, max_iter=10)
    assert not found.converged
    np.testing.assert_allclose(found.product, diagonal * found.x)
    positive = conjugate_gradients(lambda x: x * [2.0, 1.0, 4.0], lambda x: x, np.ones(3), tol=1e-12, max_iter=10)
    assert positive.converged and positive.n_iter == 3
    np.testing.assert_allclose(positive.x, [0.5, 1.0, 0.25])
    zero = conjugate_gradients(lambda x: x, lambda x: x, np.zeros(3), tol=1e-12, max_iter=10)
    assert zero.converged and zero.n_iter == 0


def test_preconditioner_inverts_its_blocks():
    space, design = problem((6, 5, 3), (3, 2, 2), n=300)
    rows, core = diagonal_blocks(design, space, design.count)
    x = np.random.default_rng(0).normal(size=space.size)
    out = invert_blocks(space, rows, core)(x)
    for k, part in space.slices.items():
        back = np.einsum("aij,aj->ai", rows[k], out[part].reshape(space.factors[k].shape))
        np.testing.assert_allclose(back.ravel(), x[part], rtol=1e-4, atol=1e-6)
