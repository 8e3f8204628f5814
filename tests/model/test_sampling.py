from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import lrbtl
from lrbtl.errors import SamplingError
from lrbtl.model.sampling import reference_probability, solve_model_law


def all_atoms(shape):
    """Cells, one for each atom."""
    n_context = int(np.prod(shape[1:]))
    rows = [(u, a, b) for u in range(n_context) for a, b in combinations(range(shape[0]), 2)]
    context, a, b = np.array(rows).T
    return SimpleNamespace(context=context, a=a, b=b, y=np.ones(len(rows)), count=np.ones(len(rows), dtype=np.int64))


def random_law(kind, shape, rng):
    if kind == "uniform":
        return lrbtl.UniformSampling()
    if kind == "product":
        contexts = rng.dirichlet(np.ones(int(np.prod(shape[1:])))).reshape(shape[1:]) if len(shape) > 1 else None
        return lrbtl.ProductSampling(rng.dirichlet(np.ones(shape[0])), contexts)
    table = rng.random((shape[0], *shape))
    table += table.swapaxes(0, 1)
    table[np.arange(shape[0]), np.arange(shape[0])] = 0.0
    return lrbtl.TableSampling(2 * table / table.sum())


def fake_battles(cells, shape):
    return SimpleNamespace(cells=cells, shape=shape, models=tuple(f"m{i}" for i in range(shape[0])))


SHAPES = [(2,), (3,), (2, 3), (5, 2), (4, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "product", "table"])
def test_atoms_sum_to_one_and_match_the_table(kind, shape):
    rng = np.random.default_rng(1)
    law = random_law(kind, shape, rng)
    cells = all_atoms(shape)
    p = law.probability(cells, shape)
    assert p.sum() == pytest.approx(1.0, abs=1e-13)
    table = law.table(shape)
    assert table.shape == (shape[0], *shape)
    flat = table.reshape(shape[0], shape[0], -1)
    np.testing.assert_allclose(flat[cells.a, cells.b, cells.context], p, rtol=1e-13)
    np.testing.assert_allclose(flat[cells.b, cells.a, cells.context], p, rtol=1e-13)
    assert not np.einsum("iiu->iu", flat).any()
    if kind == "uniform":
        np.testing.assert_allclose(p, reference_probability(shape), rtol=0)


def test_product_law_is_that_of_redrawing_both_models():
    m = np.array([0.6, 0.3, 0.1])
    law = lrbtl.ProductSampling(m)
    total = sum(2 * m[a] * m[b] for a, b in combinations(range(3), 2))
    for a, b in combinations(range(3), 2):
        assert law.table((3,))[a, b] == pytest.approx(2 * m[a] * m[b] / total, rel=1e-14)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["uniform", "product", "table"])
def test_draws_follow_the_law(kind, shape):
    rng = np.random.default_rng(7)
    law = random_law(kind, shape, rng)
    n = 40_000
    context, a, b = law.draw(n, shape, rng)
    assert np.all(a != b)
    seen = np.zeros((shape[0], shape[0], int(np.prod(shape[1:]))))
    np.add.at(seen, (np.minimum(a, b), np.maximum(a, b), context), 1 / n)
    cells = all_atoms(shape)
    p = law.probability(cells, shape)
    z = (seen[cells.a, cells.b, cells.context] - p) / np.sqrt(p / n)
    assert np.abs(z).max() < 4.5
    assert seen.sum() == pytest.approx(1.0)


def test_draws_from_a_nearly_degenerate_product_law_are_valid():
    rng = np.random.default_rng(0)
    law = lrbtl.ProductSampling([1 - 1e-9, 1e-9 / 2, 1e-9 / 2, 0.0])
    context, a, b = law.draw(10_000, (4,), rng)
    assert np.all((a == 0) ^ (b == 0))
    assert max(a.max(), b.max()) == 2
    assert not context.any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-4, 1.0), min_size=3, max_size=12), st.floats(0.0, 0.999))
def test_model_law_solves_its_equation(weights, pull):
    m = np.array(weights) / np.sum(weights)
    m *= 1 - pull
    m[0] += pull
    f = m * (m.sum() - m) / (m @ (m.sum() - m))
    solved = solve_model_law(f)
    np.testing.assert_allclose(solved, m, rtol=1e-6, atol=1e-12)
    assert solved.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("seed", range(4))
def test_estimate_maximises_the_likelihood(seed):
    rng = np.random.default_rng(seed)
    shape = (5, 3)
    cells = all_atoms(shape)
    cells.count = rng.integers(1, 30, cells.a.size) * (1 + 20 * (cells.a == 0) * (seed % 2))
    law = lrbtl.ProductSampling.estimate(fake_battles(cells, shape))

    def loss(log_m):
        m = np.exp(log_m) / np.exp(log_m).sum()
        return -cells.count @ np.log(2 * m[cells.a] * m[cells.b] / (1 - m @ m)) / cells.count.sum()

    best = minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    m = np.exp(best.x) / np.exp(best.x).sum()
    np.testing.assert_allclose(law.models, m, atol=2e-6)
    assert loss(np.log(law.models)) <= best.fun + 1e-12
    per_context = np.bincount(cells.context, cells.count)
    np.testing.assert_allclose(law.contexts, per_context / per_context.sum())


def test_estimate_recovers_the_law_where_frequencies_are_biased():
    truth = lrbtl.ProductSampling([0.55, 0.25, 0.12, 0.08], [[0.5, 0.2], [0.2, 0.1]])
    shape = (4, 2, 2)
    context, a, b = truth.draw(200_000, shape, np.random.default_rng(3))
    cells = SimpleNamespace(
        context=context, a=np.minimum(a, b), b=np.maximum(a, b), count=np.ones(a.size, dtype=np.int64)
    )
    law = lrbtl.ProductSampling.estimate(fake_battles(cells, shape))
    np.testing.assert_allclose(law.models, truth.models, atol=0.006)
    np.testing.assert_allclose(law.contexts, truth.contexts, atol=0.006)
    assert abs(np.mean(a == 0) - 0.55) > 0.1


def test_estimate_with_two_models_knows_p():
    cells = SimpleNamespace(context=np.array([0, 1]), a=np.zeros(2, int), b=np.ones(2, int), count=np.array([3, 1]))
    law = lrbtl.ProductSampling.estimate(fake_battles(cells, (2, 2)))
    np.testing.assert_allclose(law.probability(cells, (2, 2)), [0.75, 0.25])


def test_estimate_names_models_without_a_maximum():
    cells = SimpleNamespace(context=np.zeros(2, int), a=np.array([0, 0]), b=np.array([1, 2]), count=np.array([3, 1]))
    with pytest.raises(SamplingError, match="'m3'"):
        lrbtl.ProductSampling.estimate(fake_battles(cells, (4,)))
    with pytest.raises(SamplingError, match="'m0' takes part in every battle"):
        lrbtl.ProductSampling.estimate(fake_battles(cells, (3,)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: lrbtl.ProductSampling([0.5, 0.6]), "sum to 1.1"),
        (lambda: lrbtl.ProductSampling([1.5, -0.5]), "negative"),
        (lambda: lrbtl.ProductSampling([np.nan, 0.5]), "non-finite"),
        (lambda: lrbtl.ProductSampling([1.0, 0.0]), "at least two"),
        (lambda: lrbtl.ProductSampling([0.5, 0.5], [0.2, 0.2]), "`contexts` sum to 0.4"),
        (lambda: lrbtl.TableSampling(np.zeros((2, 3))), "shape"),
        (lambda: lrbtl.TableSampling([[0.0, 1.0], [0.0, 0.0]]), "symmetric"),
        (lambda: lrbtl.TableSampling([[0.5, 0.25], [0.25, 0.5]]), "zero where"),
        (lambda: lrbtl.TableSampling([[0.0, 0.5], [0.5, 0.0]]), "sum to 0.5"),
    ],
)
def test_no_law(make, message):
    with pytest.raises(SamplingError, match=message):
        make()


def test_law_must_fit_the_battles():
    cells = all_atoms((3, 2))
    with pytest.raises(SamplingError, match="shape"):
        lrbtl.ProductSampling([0.5, 0.5], [0.5, 0.5]).probability(cells, (3, 2))
    with pytest.raises(SamplingError, match="shape"):
        lrbtl.ProductSampling([0.5, 0.25, 0.25]).probability(cells, (3, 2))
    with pytest.raises(SamplingError, match="shape"):
        lrbtl.TableSampling([[0.0, 1.0], [1.0, 0.0]]).table((3, 2))
    with pytest.raises(SamplingError, match="probability zero to 1 observed"):
        table = lrbtl.UniformSampling().table((3, 2))
        table[0, 1, 1] = table[1, 0, 1] = 0.0
        lrbtl.TableSampling(table * 2 / table.sum()).probability(cells, (3, 2))
    with pytest.raises(SamplingError, match="probability zero"):
        lrbtl.ProductSampling([0.5, 0.5, 0.0], [0.5, 0.5]).probability(cells, (3, 2))


def test_reprs_say_what_the_law_covers():
    assert repr(lrbtl.ProductSampling([0.5, 0.5], [[0.5, 0.5]])) == "ProductSampling(2 models, contexts: 1 x 2)"
    assert repr(lrbtl.ProductSampling([0.5, 0.5])) == "ProductSampling(2 models, contexts: none)"


def test_laws_cannot_be_changed_behind_their_back():
    for values in (lrbtl.ProductSampling([0.5, 0.5]).models, lrbtl.TableSampling([[0.0, 1.0], [1.0, 0.0]]).table((2,))):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 0.3


def pair_law(d1=6, spread=1.0, seed=0):
    """Pairs that a product law does not describe, in three contexts."""
    rng = np.random.default_rng(seed)
    pairs = np.triu(np.exp(spread * rng.normal(size=(d1, d1))), 1)
    pairs = (pairs + pairs.T) / pairs.sum()
    return lrbtl.TableSampling(np.multiply.outer(pairs, np.array([0.5, 0.3, 0.2])))


def test_a_pair_table_is_counts_shrunk_to_the_product_law():
    law = pair_law()
    battles = lrbtl.simulate_battles(np.zeros((6, 3)), 4000, sampling=law, rng=1)
    product, found = lrbtl.ProductSampling.estimate(battles), lrbtl.TableSampling.estimate(battles, prior_votes=100)
    cells, shape = battles.cells, (6, 3)
    table = found.table(shape)
    for a in range(6):
        for b in range(a + 1, 6):
            n = cells.count[(cells.a == a) & (cells.b == b)].sum()
            m = product.table(shape)[a, b].sum()
            np.testing.assert_allclose(table[a, b], (n + 100 * m) / 4100 * np.asarray(product.contexts), rtol=1e-10)
    free = lrbtl.TableSampling.estimate(battles, prior_votes=0).table(shape)
    truth = law.table(shape)

    def error(table):
        return np.abs(table - truth).sum()

    assert error(lrbtl.TableSampling.estimate(battles).table(shape)) < 0.5 * error(product.table(shape))
    assert error(free) < 0.5 * error(product.table(shape))


def test_the_weight_of_the_product_law_follows_the_votes():
    even = lrbtl.simulate_battles(np.zeros((8, 3)), 3000, rng=2)
    shape = (8, 3)
    product = lrbtl.ProductSampling.estimate(even).table(shape)
    shrunk, free = (lrbtl.TableSampling.estimate(even, prior_votes=k).table(shape) for k in (None, 0))
    assert np.abs(shrunk - product).sum() < 0.3 * np.abs(free - product).sum()
    with pytest.raises(lrbtl.errors.SamplingError, match="prior_votes"):
        lrbtl.TableSampling.estimate(even, prior_votes=-1)


def test_the_fit_of_a_product_law_is_tested():
    rng = np.random.default_rng(0)
    models, contexts = rng.dirichlet(np.full(6, 5.0)), rng.dirichlet(np.full(3, 5.0))
    law = lrbtl.ProductSampling(models, contexts)
    pvalues = []
    for seed in range(40):
        battles = lrbtl.simulate_battles(np.zeros((6, 3)), 1500, sampling=law, rng=seed)
        pvalues.append(lrbtl.ProductSampling.estimate(battles).fit_test(battles, draws=99, rng=seed).pvalue)
    assert np.mean(np.array(pvalues) < 0.05) <= 0.15 and 0.3 < np.mean(pvalues) < 0.7
    known = law.fit_test(battles, draws=99).pvalue, lrbtl.ProductSampling.estimate(battles).fit_test(battles, draws=99)
    assert known[0] != known[1].pvalue  # a law that is known is not estimated again
    uneven = lrbtl.simulate_battles(np.zeros((6, 3)), 1500, sampling=pair_law(), rng=1)
    found = lrbtl.ProductSampling.estimate(uneven).fit_test(uneven)
    assert found.pvalue == pytest.approx(0.01) and found.pairs_pvalue < 0.01
    first, second, context = (np.tile(each, 200) for each in ([0, 1, 2, 3], [1, 0, 3, 2], [0, 0, 1, 1]))
    by_context = lrbtl.Battles.from_arrays(first, second, np.tile([1, 0, 1, 0], 200), (context,))
    found = lrbtl.ProductSampling.estimate(by_context).fit_test(by_context)
    assert found.contexts_pvalue < 0.01


def test_pearson_statistics_are_sums_over_cells():
    battles = lrbtl.simulate_battles(np.zeros((4, 2)), 400, rng=3)
    law = lrbtl.ProductSampling.estimate(battles)
    found, table = law.fit_test(battles, draws=9), law.table((4, 2))
    cells = battles.cells
    pairs = sum(
        (cells.count[(cells.a == a) & (cells.b == b)].sum() - 400 * table[a, b].sum()) ** 2 / (400 * table[a, b].sum())
        for a in range(4)
        for b in range(a + 1, 4)
    )
    models = 0.0
    for a in range(4):
        for u in range(2):
            n = cells.count[((cells.a == a) | (cells.b == a)) & (cells.context == u)].sum()
            expected = 400 * table[a, :, u].sum()
            models += (n - expected) ** 2 / expected
    assert found.pairs == pytest.approx(pairs) and found.contexts == pytest.approx(models)
