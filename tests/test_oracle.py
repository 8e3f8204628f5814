"""The oracle checked against itself on tiny problems: identities of the paper and of its corrections."""

import numpy as np
import pytest
import scipy.special

import oracle

SHAPES = [((5,), (1,)), ((5, 4), (2, 2)), ((4, 3, 3), (2, 2, 2)), ((4, 3, 3), (3, 2, 2)), ((3, 3, 2, 2), (2, 2, 2, 1))]
SMALL = SHAPES[:3]


def entry(shape, index):
    gamma = np.zeros(shape)
    gamma[index] = 1.0
    return gamma


def split(rows, n_folds, rng):
    counts = np.array([int(row[4]) for row in rows])
    return np.array([rng.multinomial(n, np.full(n_folds, 1 / n_folds)) for n in counts]).T.astype(float)


def problem(shape, rank, n=300, n_folds=3, seed=0, law=None):
    rng = np.random.default_rng(seed)
    T = oracle.random_scores(shape, rank, rng, scale=1.5)
    rows = oracle.random_rows(T, n, rng, law)
    rows += [(u, a, b, 0.5, 1.0) for u, a, b in oracle.atoms(shape)[0]]
    folds = split(rows, n_folds, rng)
    fits = [oracle.random_scores(shape, rank, rng, scale=1.2) for _ in range(n_folds)]
    return T, rows, folds, fits


def skewed_law(shape, seed=3):
    rng = np.random.default_rng(seed)
    pi = rng.dirichlet(np.full(int(np.prod(shape[1:])), 5.0)).reshape(shape[1:]) if len(shape) > 1 else None
    return oracle.product_law(rng.dirichlet(np.full(shape[0], 5.0)), pi)


# --- design ---


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_uniform_design_is_isotropic_on_zero_sum_tensors(shape, rank):
    _, X = oracle.atoms(shape)
    G0 = X.T @ X / len(X)
    H = oracle.centring(np.random.default_rng(0).standard_normal(shape)).ravel()
    assert len(X) == len(oracle.contexts(shape)) * shape[0] * (shape[0] - 1) / 2
    np.testing.assert_allclose(G0 @ H, H / oracle.d_eff(shape), atol=1e-14)
    np.testing.assert_allclose(
        4 * oracle.gram_under_law(np.zeros(shape), oracle.uniform_law(shape)) @ H, H / oracle.d_eff(shape), atol=1e-14
    )


def test_product_law_is_normalised_and_is_the_redraw_rule():
    m, pi = np.array([0.5, 0.3, 0.2]), np.array([0.7, 0.3])
    law = oracle.product_law(m, pi)
    assert sum(law.values()) == pytest.approx(1.0)
    accepted = 1 - np.sum(m**2)
    assert law[((1,), 0, 2)] == pytest.approx(0.3 * (0.5 * 0.2 + 0.2 * 0.5) / accepted)
    f = [sum(p for (_, a, b), p in law.items() if i in (a, b)) / 2 for i in range(3)]
    np.testing.assert_allclose(f, m * (1 - m) / accepted)


@pytest.mark.parametrize("shape", [(4,), (4, 3), (3, 2, 2)])
def test_weighted_design_is_the_uniform_one(shape):
    law = skewed_law(shape)
    keys, X = oracle.atoms(shape)
    w = oracle.ipw_weights([(u, a, b, 1.0, 1.0) for u, a, b in keys], law)
    p = np.array([law[key] for key in keys])
    np.testing.assert_allclose(X.T @ ((p * w)[:, None] * X), X.T @ X / len(X), atol=1e-14)


def test_empirical_information_of_a_census_is_the_expected_one():
    T = oracle.random_scores((4, 3), (2, 2), np.random.default_rng(1))
    census = [(u, a, b, 1.0, 2.0) for u, a, b in oracle.atoms(T.shape)[0]]
    np.testing.assert_allclose(
        oracle.gram_empirical(T, census), oracle.gram_under_law(T, oracle.uniform_law(T.shape)), atol=1e-15
    )


# --- tangent space ---


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_projector_identities(shape, rank):
    T = oracle.random_scores(shape, rank, np.random.default_rng(2))
    P = oracle.tangent_projector(T, rank)
    np.testing.assert_allclose(P, P.T, atol=1e-12)
    np.testing.assert_allclose(P @ P, P, atol=1e-12)
    np.testing.assert_allclose(P @ T.ravel(), T.ravel(), atol=1e-12)
    np.testing.assert_allclose((P @ np.eye(T.size)).reshape(*shape, -1).sum(axis=0), 0.0, atol=1e-12)
    assert np.trace(P) == pytest.approx(oracle.tangent_dimension(shape, rank))
    assert oracle.tangent_basis(P).shape[1] == oracle.tangent_dimension(shape, rank)


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_projector_spans_the_derivatives_of_the_tucker_form(shape, rank):
    rng = np.random.default_rng(4)
    sizes = [int(np.prod(rank))] + [d * r for d, r in zip(shape, rank, strict=True)]

    def tucker(theta):
        core, *factors = np.split(theta, np.cumsum(sizes)[:-1])
        T = core.reshape(rank)
        for k, (d, r) in enumerate(zip(shape, rank, strict=True)):
            T = np.moveaxis(np.tensordot(factors[k].reshape(d, r), T, axes=(1, k)), 0, k)
        return oracle.centring(T)

    theta = rng.standard_normal(sum(sizes))
    step = 1e-5
    J = np.array(
        [(tucker(theta + step * e) - tucker(theta - step * e)).ravel() / (2 * step) for e in np.eye(theta.size)]
    ).T
    left, values, _ = np.linalg.svd(J)
    dimension = oracle.tangent_dimension(shape, rank)
    assert np.sum(values > 1e-7 * values[0]) == dimension
    span = left[:, :dimension] @ left[:, :dimension].T
    np.testing.assert_allclose(oracle.tangent_projector(tucker(theta), rank), span, atol=1e-6)


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_blocks_of_the_paper_contain_the_tangent_space(shape, rank):
    T = oracle.random_scores(shape, rank, np.random.default_rng(5))
    P, blocks = oracle.tangent_projector(T, rank), oracle.block_projector(T, rank)
    np.testing.assert_allclose(blocks @ P, P, atol=1e-12)
    full = all(r == np.prod(rank) / r for r in rank)  # core_(k) square for every mode
    assert (round(np.trace(blocks)) == oracle.tangent_dimension(shape, rank)) == (full or len(shape) == 1)


def test_matrix_projector_is_the_textbook_one():
    T = oracle.random_scores((5, 4), (2, 2), np.random.default_rng(6))
    U, _, Vt = np.linalg.svd(T)
    PU, PV, Q = U[:, :2] @ U[:, :2].T, Vt[:2].T @ Vt[:2], np.eye(5) - 1 / 5
    M = np.random.default_rng(7).standard_normal((5, 4))
    expected = PU @ M + Q @ M @ PV - PU @ M @ PV
    np.testing.assert_allclose((oracle.tangent_projector(T, (2, 2)) @ M.ravel()).reshape(5, 4), expected, atol=1e-12)


def test_projector_refuses_a_smaller_rank():
    T = oracle.random_scores((5, 4), (1, 1), np.random.default_rng(8))
    with pytest.raises(ValueError, match="rank below 2"):
        oracle.tangent_projector(T, (2, 2))


# --- directions and bounds ---


@pytest.mark.parametrize(("shape", "rank"), SMALL)
def test_efficient_direction_solves_the_information_equation(shape, rank):
    T, rows, _, _ = problem(shape, rank)
    gamma = np.random.default_rng(9).standard_normal(shape)
    P, G = oracle.tangent_projector(T, rank), oracle.gram_empirical(T, rows)
    H = oracle.direction_efficient(G, P, gamma).ravel()
    np.testing.assert_allclose(P @ H, H, atol=1e-10)
    np.testing.assert_allclose(P @ G @ H, P @ gamma.ravel(), atol=1e-10)


def test_singular_information_is_refused():
    T = oracle.random_scores((5, 4), (2, 2), np.random.default_rng(10))
    rows = [((0,), 0, 1, 1.0, 5.0)]
    with pytest.raises(np.linalg.LinAlgError):
        oracle.direction_efficient(oracle.gram_empirical(T, rows), oracle.tangent_projector(T, (2, 2)), T)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("shape", "rank"), SMALL)
def test_efficient_bound_is_below_the_whitened_one(shape, rank, weighted):
    rng = np.random.default_rng(11)
    law = skewed_law(shape) if weighted else None
    T = oracle.random_scores(shape, rank, rng, scale=3.0)
    for _ in range(3):
        gamma = rng.standard_normal(shape)
        efficient = oracle.bound(T, rank, gamma, law)
        assert 0 < efficient < oracle.bound(T, rank, gamma, law, "whitened")


def test_unweighted_variance_can_fall_below_the_bound_under_a_skewed_law():
    shape, rank = (4, 3), (2, 2)
    law = oracle.product_law(np.array([0.9, 0.06, 0.03, 0.01]), np.array([0.6, 0.3, 0.1]))
    T = oracle.random_scores(shape, rank, np.random.default_rng(12))
    gamma = entry(shape, (3, 2))
    H = oracle.direction_whitened(oracle.tangent_projector(T, rank), gamma, shape)
    paper = sum(
        p * oracle.eta_of(H, *key) ** 2 / oracle.LOGISTIC.fisher(oracle.eta_of(T, *key)) for key, p in law.items()
    )
    assert paper < oracle.bound(T, rank, gamma, law) < oracle.bound(T, rank, gamma, law, "whitened")


@pytest.mark.parametrize(("shape", "rank"), SHAPES)
def test_bounds_meet_as_scores_shrink(shape, rank):
    T = 1e-4 * oracle.random_scores(shape, rank, np.random.default_rng(13))
    gamma = np.random.default_rng(14).standard_normal(shape)
    P = oracle.tangent_projector(T, rank)
    limit = 4 * oracle.d_eff(shape) * np.sum((P @ gamma.ravel()) ** 2)
    assert oracle.bound(T, rank, gamma) == pytest.approx(limit, rel=1e-6)
    assert oracle.bound(T, rank, gamma, method="whitened") == pytest.approx(limit, rel=1e-6)


# --- one step ---


@pytest.mark.parametrize(("shape", "rank"), SMALL)
def test_one_step_in_tangent_coordinates(shape, rank):
    _, rows, folds, fits = problem(shape, rank)
    gammas = [entry(shape, tuple(d - 1 for d in shape)), np.random.default_rng(15).standard_normal(shape)]
    result = oracle.one_step(fits, folds, rows, [oracle.linear_target(g) for g in gammas], rank)
    X = np.array([oracle.battle(shape, u, a, b) for u, a, b, _, _ in rows])
    y, n = np.array([row[3] for row in rows]), np.array([row[4] for row in rows])
    stacked = np.array([oracle.centring(g).ravel() for g in gammas]).T
    estimate, cov = 0.0, 0.0
    for T, n_k in zip(fits, folds, strict=True):
        J = oracle.tangent_basis(oracle.tangent_projector(T, rank))
        p = scipy.special.expit(X @ T.ravel())
        s, rows_j = y - p, X @ J
        K = rows_j.T @ (((n - n_k) * p * (1 - p))[:, None] * rows_j) / np.sum(n - n_k)
        g = rows_j.T @ (n_k * s) / n_k.sum()
        B = rows_j.T @ ((n_k * s**2)[:, None] * rows_j) / n_k.sum()
        theta = np.linalg.solve(K, J.T @ stacked)
        estimate += n_k.sum() / n.sum() * stacked.T @ (T.ravel() + J @ np.linalg.solve(K, g))
        cov += n_k.sum() / n.sum() ** 2 * theta.T @ B @ theta
    uncentred = np.array(
        [
            sum(f.sum() / n.sum() * np.sum((g - oracle.centring(g)) * T) for f, T in zip(folds, fits, strict=True))
            for g in gammas
        ]
    )
    np.testing.assert_allclose(result.estimate, estimate + uncentred, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(result.cov, cov, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(("shape", "rank"), SMALL)
def test_whitened_is_its_closed_form(shape, rank):
    law = skewed_law(shape)
    _, rows, folds, fits = problem(shape, rank, law=law)
    w = oracle.ipw_weights(rows, law)
    gamma = np.random.default_rng(16).standard_normal(shape)
    result = oracle.one_step(fits, folds, rows, [oracle.linear_target(gamma)], rank, "whitened", w)
    X = np.array([oracle.battle(shape, u, a, b) for u, a, b, _, _ in rows])
    y = np.array([row[3] for row in rows])
    estimate, second_moment = 0.0, 0.0
    for T, n_k in zip(fits, folds, strict=True):
        p = scipy.special.expit(X @ T.ravel())
        H = oracle.d_eff(shape) * oracle.tangent_projector(T, rank) @ gamma.ravel()
        phi = w * (y - p) / (p * (1 - p)) * (X @ H)
        estimate += n_k.sum() / folds.sum() * (gamma.ravel() @ T.ravel() + n_k @ phi / n_k.sum())
        second_moment += n_k @ phi**2
    assert result.estimate[0] == pytest.approx(estimate, rel=1e-10)
    assert result.se[0] == pytest.approx(np.sqrt(second_moment) / folds.sum(), rel=1e-10)


def test_counts_are_repetitions_and_sides_do_not_matter():
    shape, rank = (4, 3), (2, 2)
    _, rows, _, fits = problem(shape, rank)
    targets = [oracle.linear_target(entry(shape, (0, 1)))]
    cells = [(u, a, b, y, 2.0) for u, a, b, y, _ in rows]
    folds = np.array([[1.0, 1.0, 0.0]] * len(cells)).T
    repeated = [(u, b, a, 1 - y, 1.0) for u, a, b, y, _ in rows] + [(u, a, b, y, 1.0) for u, a, b, y, _ in rows]
    half = len(rows)
    split_folds = np.zeros((3, 2 * half))
    split_folds[0, :half], split_folds[1, half:] = 1.0, 1.0
    one, two = (
        oracle.one_step(fits, folds, cells, targets, rank),
        oracle.one_step(fits, split_folds, repeated, targets, rank),
    )
    np.testing.assert_allclose(one.estimate, two.estimate, rtol=1e-11)
    np.testing.assert_allclose(one.cov, two.cov, rtol=1e-11)


def test_nonlinear_target_is_linear_with_the_gradient_of_its_fold():
    shape, rank = (4, 3), (2, 2)
    _, rows, folds, fits = problem(shape, rank)
    gamma = entry(shape, (0, 1)) - entry(shape, (2, 1))
    gap = oracle.linear_target(gamma)

    def probability(T):
        return oracle.LOGISTIC.mean(gap[0](T))

    target = (probability, lambda T: probability(T) * (1 - probability(T)) * gamma)
    both = oracle.one_step(fits, folds, rows, [gap, target], rank)
    slopes = np.array([probability(T) * (1 - probability(T)) for T in fits])
    np.testing.assert_allclose(both.phi[:, :, 1], slopes[:, None] * both.phi[:, :, 0], atol=1e-12)
    plug_in = sum(f.sum() / folds.sum() * probability(T) for f, T in zip(folds, fits, strict=True))
    assert both.estimate[1] == pytest.approx(plug_in + np.sum(folds * both.phi[:, :, 1]) / folds.sum())
    assert both.cov[0, 1] == pytest.approx(np.sum(folds * both.phi[:, :, 0] * both.phi[:, :, 1]) / folds.sum() ** 2)


def test_efficient_with_a_law_uses_the_expected_information():
    shape, rank = (4, 3), (2, 2)
    law = skewed_law(shape)
    _, rows, folds, fits = problem(shape, rank, law=law)
    target = oracle.linear_target(entry(shape, (1, 1)))
    census = [(u, a, b, 1.0, p) for (u, a, b), p in law.items()]
    T = fits[0]
    expected = oracle.direction_efficient(
        oracle.gram_empirical(T, census), oracle.tangent_projector(T, rank), target[1](T)
    )
    np.testing.assert_allclose(oracle.directions(T, rows, [target], rank, "efficient", law)[0], expected, atol=1e-10)
    assert np.isfinite(oracle.one_step(fits, folds, rows, [target], rank, law=law).se[0])


@pytest.mark.parametrize("method", ["efficient", "whitened"])
def test_full_sample_errors_are_crossfit_errors_of_one_fit_on_everything(method):
    shape, rank = (4, 3), (2, 2)
    T, rows, _, _ = problem(shape, rank)
    targets = [oracle.linear_target(entry(shape, (0, 0))), oracle.linear_target(entry(shape, (1, 2)))]
    H = oracle.directions(T, rows, targets, rank, method)
    phi = np.array([oracle.influence(T, H, row, method) for row in rows])
    n = np.array([row[4] for row in rows])
    cov = oracle.full_sample_covariance(T, rows, targets, rank, method)
    np.testing.assert_allclose(cov, phi.T @ (n[:, None] * phi) / n.sum() ** 2, rtol=1e-12)


def test_order_one_step_from_the_maximum_is_the_sandwich_of_bradley_terry():
    _, rows, _, _ = problem((5,), (1,))
    theta, cov = oracle.separate_btl(rows, 5)
    targets = [oracle.linear_target(row) for row in np.eye(5)]
    np.testing.assert_allclose(oracle.full_sample_covariance(theta, rows, targets, (1,)), cov, atol=1e-12)
    folds = np.array([[row[4] for row in rows]])
    # leaves the maximum unchanged: its score is zero in every direction
    H = oracle.directions(theta, rows, targets, (1,), "efficient")
    correction = sum(folds[0, c] * oracle.influence(theta, H, row, "efficient") for c, row in enumerate(rows))
    np.testing.assert_allclose(correction / folds.sum(), 0.0, atol=1e-9)


# --- maximum likelihood errors ---


@pytest.mark.parametrize(("shape", "rank"), SMALL)
def test_leverages_sum_to_the_dimension(shape, rank):
    T, rows, _, _ = problem(shape, rank)
    _, h = oracle.mle_hc3(T, rows, [oracle.linear_target(entry(shape, (0,) * len(shape)))], rank)
    assert np.sum(h * [row[4] for row in rows]) == pytest.approx(oracle.tangent_dimension(shape, rank))
    assert np.all((h > 0) & (h < 1))


def test_hc3_between_plain_sandwich_and_unridged():
    shape, rank = (4, 3), (2, 2)
    T, rows, _, _ = problem(shape, rank)
    targets = [oracle.linear_target(entry(shape, (0, 0))), oracle.linear_target(entry(shape, (3, 1)))]
    plain = oracle.full_sample_covariance(T, rows, targets, rank)
    hc3, h = oracle.mle_hc3(T, rows, targets, rank)
    ridged, h_ridged = oracle.mle_hc3(T, rows, targets, rank, ridge=oracle.factor_ridge(T, 2, 3.0))
    heavy, _ = oracle.mle_hc3(T, rows, targets, rank, ridge=1e9 * np.eye(T.size))
    assert np.all(h_ridged < h)
    assert np.all(np.diag(plain) < np.diag(ridged))
    assert np.all(np.diag(ridged) < np.diag(hc3))
    np.testing.assert_allclose(heavy, plain, rtol=1e-6)


def test_factor_ridge_gives_the_leverages_of_factor_coordinates():
    shape, rank, ridge = (4, 3), 2, 1.7
    T, rows, _, _ = problem(shape, (rank, rank))
    left, values, right = np.linalg.svd(T, full_matrices=False)
    U, V = left[:, :rank] * np.sqrt(values[:rank]), right[:rank].T * np.sqrt(values[:rank])
    columns, weights = [], []
    for (u,), a, b, _, n in rows:
        dU, dV = np.zeros_like(U), np.zeros_like(V)
        dU[a], dU[b], dV[u] = V[u], -V[u], U[a] - U[b]
        columns.append(np.concatenate([dU.ravel(), dV.ravel()]))
        weights.append((n, oracle.LOGISTIC.fisher(oracle.eta_of(T, (u,), a, b))))
    J, (n, fisher) = np.array(columns), np.array(weights).T
    K = J.T @ ((n * fisher)[:, None] * J) + ridge * np.eye(J.shape[1])
    _, h = oracle.mle_hc3(T, rows, [oracle.linear_target(T)], (rank, rank), ridge=oracle.factor_ridge(T, rank, ridge))
    np.testing.assert_allclose(h, fisher * np.sum(J * np.linalg.solve(K, J.T).T, axis=1), rtol=1e-9)


# --- links and the separate fit ---


@pytest.mark.parametrize("link", [oracle.LOGISTIC, oracle.PROBIT])
@pytest.mark.parametrize("eta", [-2.0, -0.3, 0.0, 1.4])
def test_binary_links(link, eta):
    def loglik(y, e):
        return y * np.log(link.mean(e)) + (1 - y) * np.log(1 - link.mean(e))

    for y in (0.0, 0.3, 1.0):
        assert link.score(y, eta) == pytest.approx((loglik(y, eta + 1e-6) - loglik(y, eta - 1e-6)) / 2e-6, abs=1e-8)
    p = link.mean(eta)
    assert link.fisher(eta) == pytest.approx(p * link.score(1.0, eta) ** 2 + (1 - p) * link.score(0.0, eta) ** 2)


def test_identity_link():
    assert oracle.IDENTITY.score(1.5, 1.0) == 0.5
    assert (oracle.IDENTITY.mean(0.7), oracle.IDENTITY.fisher(0.7)) == (0.7, 1.0)


def test_separate_fit_of_two_models_is_the_log_odds():
    rows = [((0,), 0, 1, 1.0, 30.0), ((0,), 0, 1, 0.0, 10.0), ((1,), 0, 1, 1.0, 1.0)]
    theta, cov = oracle.separate_btl(rows, 2, (0,))
    assert theta[0] - theta[1] == pytest.approx(np.log(3))
    assert theta.sum() == pytest.approx(0.0, abs=1e-12)
    assert cov[0, 0] + cov[1, 1] - 2 * cov[0, 1] == pytest.approx(1 / 30 + 1 / 10)
