"""The factor model: each block's distribution against NumPy, recovery, coverage, and tables of every shape."""

import numpy as np
import pytest

import lrbtl
from lrbtl.data.scales import PROPORTION
from lrbtl.entries.config import FactorConfig
from lrbtl.entries.method import FactorMethod, FactorRun
from lrbtl.entries.posterior import central, quantiles
from lrbtl.entries.sampler import Chain, polya_gamma_moments
from lrbtl.entries.table import EntryTable, worth_in_items
from lrbtl.errors import InfluenceError, LinkError, MethodError
from lrbtl.methods.base import Options


def make_table(rng, d1=30, D=12, seen=0.5, noise=0.4, variance=None):
    truth = rng.normal(size=D) + np.outer(rng.normal(size=d1), 0.8 + 0.2 * rng.normal(size=D))
    at = np.nonzero(rng.random((d1, D)) < seen)
    y = truth[at] + noise * rng.normal(size=at[0].size)
    return truth, lrbtl.Results.from_arrays(at, y, shape=(d1, D), variance=variance)


def draws_of(analysis):
    assert isinstance(analysis.run, FactorRun)
    return analysis.run.posterior


def make_chain(seed=0, **options):
    _, results = make_table(np.random.default_rng(seed), **options)
    chain = Chain(EntryTable.of(results), FactorConfig(n_factors=2), np.random.default_rng(seed))
    for _ in range(5):
        chain.sweep()
    return chain


def test_factors_are_drawn_from_their_conditional():
    chain = make_chain()
    table, precision = chain.table, 1 / (chain.deviation_variance() + chain.noise_variance())
    draws = []
    for _ in range(4000):
        chain.draw_factors(precision)
        draws.append(chain.f[3])
    A, b = np.eye(2), np.zeros(2)
    for i, j, z, p in zip(table.model, table.context, chain.z, precision, strict=True):
        if i == 3:
            row = chain.L[j, 1:]
            A += p * np.outer(row, row)
            b += p * (z - chain.L[j, 0]) * row
    cov = np.linalg.inv(A)
    np.testing.assert_allclose(np.mean(draws, axis=0), cov @ b, atol=5 * np.sqrt(np.diag(cov).max() / 4000))
    np.testing.assert_allclose(np.cov(np.array(draws).T), cov, atol=0.1 * cov.max())


def test_loadings_are_drawn_from_their_conditional():
    chain = make_chain()
    table, precision = chain.table, 1 / (chain.deviation_variance() + chain.noise_variance())
    prior = chain.loading_prior()[1][4]
    draws = []
    for _ in range(4000):
        chain.draw_loadings(precision)
        draws.append(chain.L[4])
    A, b = np.diag(prior), prior * chain.loading_prior()[0][4]
    for i, j, z, p in zip(table.model, table.context, chain.z, precision, strict=True):
        if j == 4:
            row = np.r_[1.0, chain.f[i]]
            A += p * np.outer(row, row)
            b += p * z * row
    cov = np.linalg.inv(A)
    np.testing.assert_allclose(np.mean(draws, axis=0), cov @ b, atol=5 * np.sqrt(np.diag(cov).max() / 4000))


def test_deviations_share_residuals_with_known_noise():
    chain = make_chain(variance=0.3)
    d, s = chain.deviation_variance(), chain.noise_variance()
    unit = chain.table.scales.width / chain.stretch
    np.testing.assert_allclose(s, 0.3 / unit[chain.table.context] ** 2)
    residual = chain.z - chain.shared()
    draws = []
    for _ in range(3000):
        chain.draw_deviations()
        draws.append(chain.delta)
    np.testing.assert_allclose(
        np.mean(draws, axis=0), d / (d + s) * residual, atol=6 * np.sqrt((d * s / (d + s)).max() / 3000)
    )
    np.testing.assert_allclose(np.var(draws, axis=0), d * s / (d + s), rtol=0.2)


@pytest.mark.parametrize("variance", [None, 0.3])
def test_a_stretch_leaves_scores_as_likely(variance):
    """Residuals over their standard deviations stay, and scores are the working ones times the stretch."""
    chain = make_chain(variance=variance)
    j = chain.table.context
    before = (chain.z - chain.shared() - chain.delta) / chain.stretch[j], chain.noise_variance() / chain.stretch[j] ** 2
    old = chain.stretch.copy()
    for _ in range(5):
        chain.draw_stretch()
    assert np.all(chain.stretch != old)
    np.testing.assert_allclose(chain.z, chain.table.mean * chain.stretch[j])
    np.testing.assert_allclose((chain.z - chain.shared() - chain.delta) / chain.stretch[j], before[0], atol=1e-12)
    np.testing.assert_allclose(chain.noise_variance() / chain.stretch[j] ** 2, before[1])


def test_the_stretch_has_its_conditional_distribution():
    chain = make_chain(d1=12, D=4)
    k, j = 2, chain.table.context
    start = chain.L.copy(), chain.delta.copy(), chain.z.copy(), chain.stretch.copy()
    precision, squares = 1 / chain.v[1:], np.sum((chain.delta**2 / chain.deviation_variance())[j == k])

    def fit(t):
        row = np.exp(t) * start[0][k, 1:]
        loss = np.sum(precision * (row - chain.m[1:]) ** 2) + np.exp(2 * t) * squares
        away = (np.log(start[3][k]) + t) ** 2 / chain.config.unit_size
        return t * (np.sum(j == k) + chain.K) - 0.5 * (loss + away)

    grid = np.linspace(-3, 3, 2001)
    weight = np.exp([fit(t) - fit(0.0) for t in grid])
    mean = weight @ grid / weight.sum()
    draws = []
    for _ in range(6000):
        chain.draw_stretch()
        draws.append(np.log(chain.stretch[k] / start[3][k]))
    sd = np.sqrt(weight @ (grid - mean) ** 2 / weight.sum())
    assert np.mean(draws[100:]) == pytest.approx(mean, abs=0.15 * sd)
    assert np.std(draws[100:]) == pytest.approx(sd, rel=0.1)


@pytest.mark.parametrize("variance", [None, 0.3])
def test_units_have_their_conditional_distribution(variance):
    """Given factors, loadings and the means of scores, whatever the deviations: the density written out on a grid."""
    chain = make_chain(d1=12, D=4, variance=variance)
    k, j = 2, chain.table.context
    at, start = np.flatnonzero(j == k), np.log(chain.stretch[k])
    level = (chain.shared() - chain.L[j, 0])[at]
    away, dev, noise = chain.z[at] - chain.L[k, 0], chain.deviation_variance()[at], chain.noise_variance()[at]

    def fit(t):
        total = dev + noise * np.exp(2 * t)
        loss = np.sum(np.log(total) + (np.exp(t) * away - level) ** 2 / total)
        return t * at.size - 0.5 * (loss + (start + t) ** 2 / chain.config.unit_size)

    grid = np.linspace(-3, 3, 2001)
    weight = np.exp([fit(t) - fit(0.0) for t in grid])
    mean = weight @ grid / weight.sum()
    sd = np.sqrt(weight @ (grid - mean) ** 2 / weight.sum())
    draws = []
    for _ in range(6000):
        chain.draw_units()
        draws.append(np.log(chain.stretch[k]) - start)
    assert np.mean(draws[100:]) == pytest.approx(mean, abs=0.15 * sd)
    assert np.std(draws[100:]) == pytest.approx(sd, rel=0.1)
    np.testing.assert_allclose(chain.z, chain.table.mean * chain.stretch[j])


def test_degrees_of_freedom_move_with_the_scores():
    """Tails as heavy as those of t(2), and normal ones, are found whatever the chain starts from."""
    found = []
    for heavy in (True, False):
        rng = np.random.default_rng(3)
        truth = np.add.outer(rng.normal(size=60), rng.normal(size=20))
        y = truth + 0.3 * (rng.standard_t(2, size=truth.shape) if heavy else rng.normal(size=truth.shape))
        draws = draws_of(lrbtl.analyse(lrbtl.Results.from_arrays(np.nonzero(y), y.ravel(), shape=y.shape))).draws
        found.append(draws.degrees)
        assert len(np.unique(draws.degrees)) > 50
    assert np.median(found[0]) < 4 < 10 < np.median(found[1])


def test_few_scores_on_a_scale_of_unknown_unit_are_covered():
    """Three to five real scores a benchmark say little of its unit, which intervals hold."""
    hits = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        unit, level = np.exp(2 * rng.normal(size=30)), rng.normal(size=25)
        truth = unit * (rng.normal(size=30) + level[:, None] + 0.4 * rng.normal(size=(25, 30)))
        seen = np.argsort(rng.random((25, 30)), axis=0) < rng.integers(3, 6, size=30)
        at = np.nonzero(seen)
        found = draws_of(lrbtl.analyse(lrbtl.Results.from_arrays(at, truth[at], shape=truth.shape), rng=seed))
        for u in range(30):
            low, high = central(found.measured(u), 0.9)
            hits += ((truth[:, u] >= low) & (truth[:, u] <= high))[~seen[:, u]].tolist()
    assert 0.85 < np.mean(hits) < 0.94  # 0.77 where so few scores give a unit that counts as known


def test_a_table_of_exact_low_rank_is_covered_not_more():
    """Factors and deviations that are not there may have no size at all."""
    hits = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=30) + np.outer(rng.normal(size=50), 0.9 + 0.3 * rng.normal(size=30))
        seen = rng.random(truth.shape) < 0.5
        y = truth + 0.3 * rng.normal(size=truth.shape)
        at = np.nonzero(seen)
        results = lrbtl.Results.from_arrays(at, y[at], shape=truth.shape, variance=0.09)
        found = draws_of(lrbtl.analyse(results, rng=seed))
        for u in range(30):
            low, high = central(found.latent(u), 0.95)
            hits += ((truth[:, u] >= low) & (truth[:, u] <= high)).tolist()
    assert 0.93 < np.mean(hits) < 0.975  # 0.98 with sizes that cannot vanish


def test_polya_gamma_moments_are_those_of_its_series():
    """PG(n, eta) = sum_k Gamma(n, 1) / (2 pi^2 ((k - 1/2)^2 + eta^2 / (4 pi^2)))."""
    rng, n, eta = np.random.default_rng(0), 3.0, 1.7
    rates = 2 * np.pi**2 * ((np.arange(1, 300) - 0.5) ** 2 + eta**2 / (4 * np.pi**2))
    draws = (rng.gamma(n, size=(20_000, 299)) / rates).sum(axis=1)
    mean, variance = polya_gamma_moments(np.array([n]), np.array([eta]))
    assert mean[0] == pytest.approx(draws.mean(), rel=0.01) and variance[0] == pytest.approx(draws.var(), rel=0.05)
    near, far = polya_gamma_moments(np.ones(1), np.array([0.009])), polya_gamma_moments(np.ones(1), np.array([0.011]))
    np.testing.assert_allclose(near, far, rtol=1e-4)


def test_shares_are_worth_their_items():
    n, q = worth_in_items(np.array([0.3, 0.0, 1.0]), np.array([0.3 * 0.7 / 50, 1e-4, 1e-4]))
    np.testing.assert_allclose(q, (n * [0.3, 0, 1] + 0.5) / (n + 1))
    np.testing.assert_allclose(q * (1 - q) / n, [0.3 * 0.7 / 50, 1e-4, 1e-4], rtol=1e-6)


def test_quantiles_leave_their_share_of_new_draws_outside():
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(400):
        low, high = central(rng.normal(size=(60, 1)), 0.9)
        inside.append(np.mean((rng.normal(size=200) > low) & (rng.normal(size=200) < high)))
    assert np.mean(inside) == pytest.approx(0.9, abs=0.012)
    assert quantiles(np.zeros((3, 2)), [0.5]).shape == (1, 2)


@pytest.mark.parametrize("variance", [None, 0.16])
def test_entries_and_predictions_are_covered(variance):
    hits, ahead = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, results = make_table(rng, variance=variance)
        found = draws_of(lrbtl.analyse(results, rng=seed))
        unseen = ~results.measured
        for u in range(truth.shape[1]):
            low, high = central(found.latent(u), 0.95)
            hits += ((truth[:, u] >= low) & (truth[:, u] <= high))[unseen[:, u]].tolist()
            low, high = central(found.measured(u), 0.95)
            again = truth[:, u] + 0.4 * rng.normal(size=truth.shape[0])
            ahead += ((again >= low) & (again <= high))[unseen[:, u]].tolist()
    assert 0.92 < np.mean(ahead) < 0.98
    assert variance is None or 0.92 < np.mean(hits) < 0.99


def test_repeated_scores_tell_the_noise():
    rng = np.random.default_rng(0)
    truth = np.add.outer(rng.normal(size=20), rng.normal(size=8))
    at = np.nonzero(np.ones((20, 8, 3)))[:2]
    y = truth[at] + 0.2 * rng.normal(size=at[0].size)
    analysis = lrbtl.analyse(lrbtl.Results.from_arrays(at, y, shape=(20, 8)))
    found = draws_of(analysis)
    assert np.median(found.draws.noise * found.table.scales.width**2) == pytest.approx(0.04, rel=0.25)
    assert not analysis.provenance.notes
    assert np.sqrt(np.mean((analysis.scores() - truth) ** 2)) < 0.12


@pytest.mark.parametrize(
    ("at", "shape"),
    [
        ([(0, 0)], (1, 1)),
        ([(0, 0), (1, 0), (2, 0)], (3, 1)),
        ([(0, 0), (0, 1), (0, 2)], (1, 3)),
        ([(0, 0), (1, 0), (2, 1), (3, 1)], (4, 2)),
        ([(0, 0), (1, 0)], (4, 5)),
    ],
)
@pytest.mark.parametrize("equal", [False, True])
def test_nothing_is_refused(at, shape, equal):
    values = np.ones(len(at)) if equal else np.arange(len(at)) * 10.0
    results = lrbtl.Results.from_arrays(np.array(at), values, shape=shape)
    est = lrbtl.infer(results, lrbtl.all_scores())
    assert np.all(np.isfinite(est.estimate)) and np.all(est.se > 0)


def test_a_seed_fixes_the_answer_and_labels_do_not_matter():
    _, results = make_table(np.random.default_rng(1))
    one, two = (lrbtl.infer(results, lrbtl.entry(2, 3), rng=5) for _ in range(2))
    assert one.estimate[0] == two.estimate[0] and one.se[0] == two.se[0]
    other = lrbtl.infer(results, lrbtl.entry(2, 3), rng=6)
    assert other.estimate[0] != one.estimate[0] and abs(other.estimate[0] - one.estimate[0]) < one.se[0]


def test_targets_of_any_kind_read_the_same_draws():
    truth, results = make_table(np.random.default_rng(2), d1=8, D=4)
    analysis = lrbtl.analyse(results)
    gamma = np.zeros(truth.shape)
    gamma[1, 2], gamma[0, 2] = 1.0, -1.0
    linear = analysis.estimate([lrbtl.linear(gamma), lrbtl.gap(1, 0, 2)])
    assert linear.estimate[0] == pytest.approx(linear.estimate[1]) and linear.cov[0, 1] == pytest.approx(
        linear.cov[0, 0]
    )
    square = lrbtl.functional(
        lambda x: float(x[0, 0] ** 2), lambda x: 2 * x[0, 0] * (np.arange(x.size) == 0).reshape(x.shape)
    )
    assert isinstance(analysis.run, FactorRun)
    draws = analysis.run.posterior.latent(0)[:, 0]
    assert analysis.estimate(square).estimate[0] == pytest.approx(np.mean(draws**2))
    gaps = analysis.estimate(lrbtl.all_gaps())
    assert gaps.estimate[2] == pytest.approx(-linear.estimate[1])
    with pytest.raises(MethodError, match="results are scores"):
        analysis.estimate(lrbtl.win_probability(0, 1, 0))
    with pytest.raises(InfluenceError):
        analysis.run.influences([])


def test_what_the_model_cannot_do_is_said():
    _, results = make_table(np.random.default_rng(2), d1=8, D=4)
    with pytest.raises(MethodError, match="for results"):
        lrbtl.infer(lrbtl.demo_battles(), lrbtl.score(0), method="factor")
    with pytest.raises(LinkError, match="one-bit"):
        FactorMethod().run(results, Options(link="probit"))
    assert "rank=2 has no effect" in " ".join(lrbtl.analyse(results, rank=2).provenance.notes)


@pytest.mark.parametrize("matters", [True, False])
def test_features_narrow_newcomers_where_they_predict(matters):
    rng = np.random.default_rng(0)
    hits, ratio = [], []
    for seed in range(4):
        rng = np.random.default_rng([seed, matters])
        size = rng.normal(size=40)
        level = (0.9 * size + 0.4 * rng.normal(size=40)) if matters else rng.normal(size=40)
        truth = level[:, None] + rng.normal(size=10) + 0.2 * rng.normal(size=(40, 10))
        seen = rng.random((40, 10)) < 0.6
        seen[:8] = False
        seen[:8, 0] = True
        names = [f"m{k:02d}" for k in range(40)]
        at = np.nonzero(seen)
        long = {
            "model": [names[k] for k in at[0]],
            "benchmark": [f"b{k}" for k in at[1]],
            "score": truth[at] + 0.5 * rng.normal(size=at[0].size),
            "se": [0.5] * at[0].size,
        }
        table = {"model": names, "size": size}
        told = lrbtl.analyse(lrbtl.Results.from_frame(long, se="se", scales="real", features=table))
        plain = lrbtl.analyse(lrbtl.Results.from_frame(long, se="se", scales="real"))
        for u in range(1, 10):
            (low, high), (a, b) = (central(draws_of(each).latent(u)[:, :8], 0.95) for each in (told, plain))
            hits += ((truth[:8, u] >= low) & (truth[:8, u] <= high)).tolist()
            ratio += ((high - low) / (b - a)).tolist()
    assert 0.9 < np.mean(hits) <= 1.0
    assert np.median(ratio) < 0.95 if matters else 0.9 < np.median(ratio) < 1.15
    effect = told.feature_effects()
    assert list(effect.labels) == ["size"] and (effect.estimate[0] > 3 * effect.se[0]) == matters


@pytest.mark.parametrize("items", [None, "items"])
def test_names_and_their_order_do_not_matter(items):
    """The same scores under other names, in another order, have the same forecasts to the last digit."""
    rng = np.random.default_rng(0)
    seen = np.argwhere(rng.random((14, 7)) < 0.6)
    score, n = rng.integers(1, 100, size=len(seen)) / 1.0, rng.choice([50, 200], size=len(seen))
    found = []
    for models, benchmarks in ((np.arange(14), np.arange(7)), (rng.permutation(14), rng.permutation(7))):
        names = [f"m{models[i]:02d}" for i, _ in seen], [f"b{benchmarks[j]}" for _, j in seen]
        table = {"model": names[0], "benchmark": names[1], "score": score, "items": n}
        forecast = lrbtl.forecast(lrbtl.Results.from_frame(table, items=items, scales="percent"), level=0.9)
        where = {f"m{k:02d}": i for i, k in enumerate(models)}, {f"b{k}": j for j, k in enumerate(benchmarks)}
        key = [(where[0][a], where[1][u]) for a, (u,) in zip(forecast.models, forecast.contexts, strict=True)]
        numbers = zip(forecast.estimate, forecast.lower, forecast.upper, strict=True)
        found.append(dict(zip(key, numbers, strict=True)))
    assert found[0] == found[1]


def test_shares_of_no_items_may_be_beyond_what_factors_say():
    n, right = np.full((6, 4), 20.0), np.tile(np.array([0.0, 2, 8, 12, 16, 20])[:, None], (1, 4))
    right[0, 3] = 5.0
    i, j = np.indices(n.shape).reshape(2, -1)
    share = right[i, j] / 20
    q = (20 * share + 0.5) / 21
    results = lrbtl.Results.from_arrays(
        (i, j), share, shape=n.shape, variance=q * (1 - q) / 20, scales=[PROPORTION] * 4
    )
    chain = Chain(EntryTable.of(results), FactorConfig(), np.random.default_rng(0))
    assert [(int(chain.table.model[k]), int(chain.table.context[k])) for k in chain.ends] == [
        *((0, k) for k in range(3)),
        *((5, k) for k in range(4)),
    ]
    for _ in range(20):
        chain.sweep()
    eta = (chain.shared() + chain.delta)[chain.ends]
    p = 1 / (1 + np.exp(-eta))
    assert chain.table.share is not None and chain.table.worth is not None
    alike = np.where(chain.table.share[chain.ends] == 0, (1 - p), p) ** chain.table.worth[chain.ends]
    times = np.zeros(7)
    for _ in range(4000):
        chain.draw_bounds()
        times += chain.beyond / 4000
    np.testing.assert_allclose(times, 1 / (1 + alike), atol=0.04)
    assert chain.noise is not None and np.all(chain.noise[chain.ends[chain.beyond]] == 1e12)
    chain.beyond[:] = True
    beyond = np.array([chain.record()[2][chain.ends] + chain.shared()[chain.ends] for _ in range(4000)])
    share = np.sort(1 / (1 + np.exp(np.abs(beyond))), axis=0)
    worth = chain.table.worth[chain.ends]
    np.testing.assert_allclose(share.mean(axis=0), 0.5 / (worth + 1), rtol=0.15)
    assert np.all(beyond[:, :3] < 0) and np.all(beyond[:, 3:].mean(axis=0) > 0)
