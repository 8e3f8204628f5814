"""A numeric counter-example for each entry of the errata table in docs/paper.md.

The numbers of the table's rows are those of the tests. Dense matrices of the oracle stand for both sides; nothing of
the package is used but where a test says so.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.special import expit

import lrbtl
import oracle

PAGE = Path(__file__).parents[1] / "docs" / "paper.md"


def scores(shape, rank, seed=0, scale=1.5):
    return oracle.random_scores(shape, rank, np.random.default_rng(seed), scale)


def sampled_gram(shape, probability=None):
    """E[X X^T] over all atoms, uniform by default."""
    keys, X = oracle.atoms(shape)
    p = np.full(len(keys), 1 / len(keys)) if probability is None else probability
    return X.T @ (p[:, None] * X)


def test_01_the_blocks_of_the_lemma_are_larger_than_the_tangent_space():
    """`app:pd-tangent-block-sum`: right for matrices, too large for order 3 and more."""
    T, rank = scores((6, 5, 4), (2, 2, 2)), (2, 2, 2)
    printed, right = oracle.block_projector(T, rank), oracle.tangent_projector(T, rank)
    assert round(np.trace(right)) == oracle.tangent_dimension(T.shape, rank) == 24
    assert round(np.trace(printed)) == 40
    # a derivative of any curve of rank 2 tensors lies in the smaller one, and spans it
    matrix = scores((6, 5), (2, 2))
    np.testing.assert_allclose(
        oracle.block_projector(matrix, (2, 2)), oracle.tangent_projector(matrix, (2, 2)), atol=1e-12
    )


@pytest.mark.parametrize("shape", [(5, 4), (8, 3), (4, 3, 2)])
def test_02_the_effective_dimension_is_not_the_number_of_entries(shape):
    """`eq:G0-whitened` with d* of `eq:dim-notation`: G0 = I / d* holds for d* = D (d1 - 1) / 2."""
    H = oracle.centring(np.random.default_rng(0).normal(size=shape))
    image = (sampled_gram(shape) @ H.ravel()).reshape(shape)
    D, d1 = np.prod(shape[1:]), shape[0]
    np.testing.assert_allclose(image, H / (D * (d1 - 1) / 2), atol=1e-14)
    printed = H / np.prod(shape)
    np.testing.assert_allclose(image, printed * 2 * d1 / (d1 - 1), atol=1e-14)


def test_03_the_information_of_even_models_has_a_factor_one_over_contexts():
    """`ex:uniform-IG`: G = Id / (2 (d1 - 1)) holds for one context only."""
    d1, d2 = 6, 4
    H = oracle.centring(np.random.default_rng(0).normal(size=(d1, d2)))
    image = (0.25 * sampled_gram((d1, d2)) @ H.ravel()).reshape(d1, d2)
    np.testing.assert_allclose(image, H / (2 * (d1 - 1)) / d2, atol=1e-15)


def test_04_the_matrix_form_of_the_bound_lost_the_same_factor():
    """`app:sec4-details`: g K^+ g with K = J^T L J is the bound over d2."""
    d1, d2, r = 5, 3, 2
    T = scores((d1, d2), (r, r))
    left, _, right = np.linalg.svd(T)
    U, V = left[:, :r], right[:r].T
    Q = np.linalg.svd(np.eye(d1) - 1 / d1)[0][:, : d1 - 1]
    columns = [np.outer(U[:, k], np.eye(d2)[j]).ravel() for j in range(d2) for k in range(r)]
    columns += [np.outer(Q[:, i], V[:, k]).ravel() for i in range(d1 - 1) for k in range(r)]
    J = np.array(columns).T
    L = np.zeros((d1 * d2, d1 * d2))
    for u in range(d2):
        for a in range(d1):
            for b in range(a + 1, d1):
                x = oracle.battle((d1, d2), (u,), a, b)
                L += np.outer(x, x) * oracle.LOGISTIC.fisher(T[a, u] - T[b, u]) / (d1 * (d1 - 1) / 2)
    gamma = np.zeros((d1, d2))
    gamma[0, 1], gamma[2, 1] = 1.0, -1.0
    g = J.T @ gamma.ravel()
    printed = g @ np.linalg.pinv(J.T @ L @ J) @ g
    assert oracle.bound(T, (r, r), gamma) == pytest.approx(d2 * printed, rel=1e-8)


def test_05_the_benchmark_inverse_fits_neither_dimension():
    """`prop:CA-range-main`: at I = 1/4 the inverse is 4 d_eff P_T, not 2 d* P_T."""
    shape, rank = (6, 4), (2, 2)
    P = oracle.tangent_projector(scores(shape, rank), rank)
    inverse = oracle.invert_on_tangent(0.25 * sampled_gram(shape), P)
    d_eff, entries = oracle.d_eff(shape), np.prod(shape)
    np.testing.assert_allclose(inverse, 4 * d_eff * P, atol=1e-8)
    assert not np.isclose(4 * d_eff, 2 * entries) and not np.isclose(4 * d_eff, 2 * d_eff)


def test_06_the_lower_bound_of_the_frobenius_norm_fails():
    """`eq:Fnorm-lambda`: sqrt(r*) lambda_min <= ||T||_F fails for every matrix with equal singular values."""
    T = np.diag([1.0, 1.0, 0.0])
    r_star, smallest = 2 * 2, 1.0
    assert np.sqrt(r_star) * smallest > np.linalg.norm(T)
    assert np.sqrt(max(2, 2)) * smallest <= np.linalg.norm(T) * (1 + 1e-12)  # with the largest rank it holds


def test_07_the_reference_law_is_not_one_over_the_number_of_entries():
    """`sec:unknown-sampling`: q = 1 / d* does not sum to one over the atoms, of which there are D C(d1, 2)."""
    shape = (6, 4)
    keys, _ = oracle.atoms(shape)
    assert len(keys) == 4 * 15
    assert len(keys) / np.prod(shape) == pytest.approx(2.5)
    assert sum(1 / len(keys) for _ in keys) == pytest.approx(1.0)


def test_08_uniform_sampling_violates_the_overlap_condition():
    """`eq:overlap_bounds`: p >= c_p / d* with a constant c_p fails as d1 grows, even for uniform p."""
    ratio = [np.prod((d1, 5)) / (5 * d1 * (d1 - 1) / 2) for d1 in (10, 100, 1000)]
    np.testing.assert_allclose(ratio, [2 / 9, 2 / 99, 2 / 999])


def test_09_the_variance_of_weighted_estimates_is_not_V_ws():
    """`thm:ipw-clt`: the variance is E[w^2 <H, X>^2 / I]; V_ws of `eq:Vws` can be below the efficiency bound."""
    shape, rank = (6, 5), (2, 2)
    T = scores(shape, rank)
    models = np.array([0.55, 0.25, 0.08, 0.06, 0.04, 0.02])
    law = oracle.product_law(models, np.full(5, 0.2))
    gamma = np.zeros(shape)
    gamma[4, 1], gamma[5, 1] = 1.0, -1.0
    H = oracle.direction_whitened(oracle.tangent_projector(T, rank), gamma, shape)
    printed = right = 0.0
    for (u, a, b), p in law.items():
        square = oracle.eta_of(H, u, a, b) ** 2 / oracle.LOGISTIC.fisher(oracle.eta_of(T, u, a, b))
        weight = 1 / len(law) / p
        printed += p * square
        right += p * weight**2 * square
    efficient = oracle.bound(T, rank, gamma, law)
    assert printed < efficient < right
    assert right == pytest.approx(oracle.bound(T, rank, gamma, law, "whitened"))


def test_10_pair_probabilities_do_not_sum_to_one():
    """`sec:unknown-sampling`: each unordered pair with probability q(a) q(b) leaves mass out."""
    q = np.array([0.5, 0.3, 0.2])
    assert sum(q[a] * q[b] for a in range(3) for b in range(a + 1, 3)) == pytest.approx(0.31)
    assert sum(oracle.product_law(q).values()) == pytest.approx(1.0)


def test_11_an_entry_is_not_in_the_tangent_space():
    """After `ass:alignment`: an entry target has an alignment far below one, and must be centred."""
    shape, rank = (20, 15), (2, 2)
    P = oracle.tangent_projector(scores(shape, rank), rank)
    gamma = np.zeros(shape)
    gamma[3, 4] = 1.0
    assert np.linalg.norm(P @ gamma.ravel()) < 0.6
    assert abs(gamma.sum(axis=0)).max() == 1.0 and abs((P @ gamma.ravel()).reshape(shape).sum(axis=0)).max() < 1e-12
    # without centring the whitened correction has the wrong mean: <H, X> of d_eff Gamma sees the common level
    level = np.ones(shape)
    assert np.sum(gamma * level) == 1.0 and np.sum(oracle.centring(gamma) * level) == pytest.approx(0.0)


def test_12_whitening_is_not_efficient_under_unequal_noise():
    """`sec:tc-lb`: with known variances V_ws > V_eff; V_ws = V_eff as claimed there holds for equal ones only."""
    rng = np.random.default_rng(0)
    T = rng.normal(size=(5, 2)) @ rng.normal(size=(4, 2)).T
    variance = np.exp(1.5 * rng.normal(size=T.shape))
    gamma = np.zeros(T.shape)
    gamma[1, 2] = 1.0
    left, _, right = np.linalg.svd(T)
    PU, PV = left[:, :2] @ left[:, :2].T, right[:2].T @ right[:2]
    P = np.kron(PU, np.eye(4)) + np.kron(np.eye(5), PV) - np.kron(PU, PV)
    B = oracle.tangent_basis(P)

    def both(noise):
        p = 1 / T.size
        A = B.T @ ((p / noise.ravel())[:, None] * B)
        efficient = (B.T @ gamma.ravel()) @ np.linalg.solve(A, B.T @ gamma.ravel())
        direction = T.size * P @ gamma.ravel()
        return efficient, float(np.sum(p * direction**2 * noise.ravel()))

    efficient, whitened = both(variance)
    assert whitened > 1.2 * efficient
    assert both(np.ones(T.shape))[0] == pytest.approx(both(np.ones(T.shape))[1])
    public = lrbtl.efficiency_bound(
        T, lrbtl.entry(1, 2), rank=2, link="identity", variance=variance, method="efficient"
    )
    assert public == pytest.approx(efficient, rel=1e-6)


def test_13_the_one_bit_variance_lost_a_factor_of_the_number_of_entries():
    """`sec:tc-bernoulli`: V_ws = p^2 sum p_jk (P_T Gamma)^2_jk / I_jk, with p the number of entries."""
    rng = np.random.default_rng(0)
    T = rng.normal(size=(5, 2)) @ rng.normal(size=(4, 2)).T
    gamma = np.zeros(T.shape)
    gamma[1, 2] = 1.0
    left, _, right = np.linalg.svd(T)
    PU, PV = left[:, :2] @ left[:, :2].T, right[:2].T @ right[:2]
    projected = PU @ gamma + gamma @ PV - PU @ gamma @ PV
    fisher = expit(T) * expit(-T)
    p, each = T.size, 1 / T.size
    middle = np.sum(each * (p * projected) ** 2 / fisher)  # E[<p P_T Gamma, X>^2 / I], the middle of the equation
    printed = p * np.sum(each * projected**2 / fisher)
    assert middle == pytest.approx(p * printed)


def test_14_folds_of_unequal_size_need_their_own_weights():
    """`alg:onestep`: K / N and the plain mean over folds weigh votes of small folds too little or too much."""
    phi = [np.array([1.0, 1.0, 1.0, 1.0]), np.array([4.0])]
    K, N = 2, 5
    printed = np.mean([K / N * part.sum() for part in phi])
    assert printed == pytest.approx(np.concatenate(phi).mean())  # the correction alone comes out right
    plug_in = np.array([0.0, 10.0])  # but plug-in values do not: the second rests on 4 of 5 votes, not on half
    assert plug_in.mean() == 5.0 and np.array([4, 1]) / 5 @ plug_in == 2.0
    # a fold's own estimate is off as well: its correction is a sum over n_k votes times K / N, not their mean
    assert K / N * phi[1].sum() != phi[1].mean()


def test_15_projected_entries_are_larger_by_the_root_of_the_dimension():
    """`app:pd-term2-M-F` takes ||P_T E|| <= C / sqrt(d*), against sqrt(d / d*) of `lem:norm-scales`."""
    sizes = []
    for d in (10, 40, 160):
        T = np.ones((d, 1)) @ np.ones((1, d)) / d  # perfectly incoherent
        U = T[:, :1] / np.linalg.norm(T[:, :1])
        E = np.zeros((d, d))
        E[0, 0] = 1.0
        P = U @ (U.T @ E) + (E @ U) @ U.T - U @ (U.T @ E @ U) @ U.T
        sizes.append(np.linalg.norm(P) * d)  # times sqrt(d*): bounded, as printed, or growing like sqrt(d)
    np.testing.assert_allclose(np.array(sizes[1:]) / sizes[:-1], 2.0, rtol=0.05)


def test_16_equal_variances_do_not_need_constant_information():
    """`sec:tc-lb`, "if and only if": V_ws = V_eff also where P_T and G commute, as for two models and any scores."""
    target = np.zeros((2, 3))
    target[0, 1], target[1, 1] = 1.0, -1.0
    full = oracle.random_scores((2, 3), (1, 1), np.random.default_rng(1), 2.0)
    P = np.eye(6) - np.kron(np.full((2, 2), 0.5), np.eye(3))
    G = oracle.gram_under_law(full, oracle.uniform_law((2, 3)))
    efficient = target.ravel() @ oracle.invert_on_tangent(G, P) @ target.ravel()
    H = oracle.d_eff((2, 3)) * (P @ target.ravel()).reshape(2, 3)
    whitened = sum(
        p * oracle.eta_of(H, u, a, b) ** 2 / oracle.LOGISTIC.fisher(oracle.eta_of(full, u, a, b))
        for (u, a, b), p in oracle.uniform_law((2, 3)).items()
    )
    information = [oracle.LOGISTIC.fisher(full[0, u] - full[1, u]) for u in range(3)]
    assert np.ptp(information) > 0.01 and whitened == pytest.approx(efficient)


def test_every_row_of_the_table_has_its_test():
    table = PAGE.read_text(encoding="utf-8").split("## Errata")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \|", table, flags=re.MULTILINE)
    tests = [name for name in globals() if re.match(r"test_\d\d_", name)]
    assert [int(row) for row in rows] == sorted(int(name[5:7]) for name in tests)
