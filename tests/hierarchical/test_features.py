"""Features of models in the prior of levels: what they do to newcomers, what they must not do, and bad tables."""

import numpy as np
import pytest

import lrbtl
from lrbtl.errors import CovariateError, InputTypeError, MethodError, MissingColumnError, ScoreError, TooLargeError
from lrbtl.hierarchical import large

D1, TASKS = 24, 3
NAMES = [f"model-{k:02d}" for k in range(D1)]
RNG = np.random.default_rng(3)
SIZE, FAMILY = RNG.normal(size=D1), RNG.integers(0, 4, D1)
LEVEL = 0.8 * SIZE + 0.5 * RNG.normal(size=4)[FAMILY] + 0.3 * RNG.normal(size=D1)
TRUTH = LEVEL[:, None] + 0.2 * RNG.normal(size=(D1, TASKS))
TABLE = {"model": NAMES, "size": (30.0 + 12.0 * SIZE).tolist(), "family": [f"f{k}" for k in FAMILY]}


def log(seed=0):
    """Rows of votes: 3,000 of the first 21 models, 12 of each of the last three."""
    rng, n = np.random.default_rng(seed), 3000
    a = np.concatenate([rng.integers(0, 21, n), np.repeat([21, 22, 23], 12)])
    b = np.concatenate([(a[:n] + rng.integers(1, 21, n)) % 21, rng.integers(0, 21, 36)])
    u = rng.integers(0, TASKS, len(a))
    won = rng.random(len(a)) < 1.0 / (1.0 + np.exp(TRUTH[b, u] - TRUTH[a, u]))
    return a, b, won, u


def votes(names=NAMES, seed=0):
    a, b, won, u = log(seed)
    called = np.array(names)
    return lrbtl.Battles.from_arrays(called[a], called[b], won, [np.array(["x", "y", "z"])[u]])


@pytest.fixture(scope="module")
def found():
    return lrbtl.analyse(votes(), features=TABLE)


def board(analysis, names=NAMES):
    (got,) = analysis.estimate_boards(np.full((1, TASKS), 1.0 / TASKS))
    place = [analysis.battles.model_index(name) for name in names]
    return got.estimate[place], got.se[place]


def test_newcomers_are_expected_where_features_say(found):
    (with_values, with_se), (values, se) = board(found), board(lrbtl.analyse(votes()))
    new, truth = slice(21, None), TRUTH.mean(axis=1) - TRUTH.mean()
    assert np.all(with_se[new] < 0.9 * se[new])
    assert np.sum((with_values - truth)[new] ** 2) < np.sum((values - truth)[new] ** 2)
    old = slice(0, 21)
    assert np.sum((with_values - truth)[old] ** 2) < 1.05 * np.sum((values - truth)[old] ** 2)
    assert np.all(with_se[old] < 1.05 * se[old])


def test_coefficients_are_in_units_of_the_feature(found):
    effects = found.feature_effects()
    assert list(effects.labels) == ["size", "family=f0", "family=f1", "family=f2", "family=f3"]
    low, high = effects.conf_int()[0]
    assert low < 0.8 / 12.0 < high and low > 0.0 and high - low < 0.04
    share = np.bincount(FAMILY) / D1
    assert abs(share @ effects.estimate[1:]) < 1e-10  # against the mean of all models
    assert share @ effects.cov[1:, 1:] @ share < 1e-10
    shares = [note for note in found.provenance.notes if "features account for" in note]
    assert len(shares) == 1 and 50 <= int(shares[0].split("%")[0].split()[-1]) <= 99


def test_units_and_origins_of_numbers_do_not_matter(found):
    values, se = board(found)
    other = {**TABLE, "size": (-7.0 + 1e3 * np.array(TABLE["size"])).tolist()}
    again = lrbtl.analyse(votes(), features=other)
    assert np.abs(board(again)[0] - values).max() < 1e-9 * se.min()
    np.testing.assert_allclose(board(again)[1], se, rtol=1e-9)
    one, two = (each.feature_effects() for each in (found, again))
    np.testing.assert_allclose(two.estimate[0] * 1e3, one.estimate[0], rtol=1e-8)


def test_names_of_models_and_order_of_rows_do_not_matter(found):
    rng = np.random.default_rng(1)
    names = [f"other-{k:02d}" for k in rng.permutation(D1)]
    rows = rng.permutation(D1 + 1)
    table = {
        "family": [[*TABLE["family"], "f9"][k] for k in rows],
        "model": [[*names, "nobody"][k] for k in rows],  # rows of models without votes change nothing
        "size": [[*TABLE["size"], 5.0][k] for k in rows],
    }
    again = lrbtl.analyse(votes(names), features=table)
    (values, se), (there, there_se) = board(found), board(again, names)
    assert np.abs(there - values).max() < 1e-6 * se.min()
    np.testing.assert_allclose(there_se, se, rtol=1e-6)


def test_features_that_say_nothing_hardly_change_an_answer():
    rng = np.random.default_rng(5)
    table = {"model": NAMES, "noise": rng.normal(size=D1), "kind": rng.choice(list("abc"), D1).tolist()}
    plain, told = lrbtl.analyse(votes()), lrbtl.analyse(votes(), features=table)
    (values, se), (there, there_se) = board(plain), board(told)
    assert np.abs((there - values) / se).max() < 0.3
    np.testing.assert_allclose(there_se, se, rtol=0.1)
    constant = {"model": NAMES, "same": [1.0] * D1}
    there, there_se = board(lrbtl.analyse(votes(), features=constant))
    assert np.abs((there - values) / se).max() < 0.1


def test_models_without_a_row_are_expected_at_the_mean():
    some = {name: column[:-1] for name, column in TABLE.items()}
    told = lrbtl.analyse(votes(), features=some)
    assert "1 models have no features: model-23" in told.provenance.notes
    assert np.all(np.isfinite(board(told)[1]))


def test_every_question_takes_features(found):
    one = lrbtl.leaderboard(votes(), features=TABLE)
    assert one.models == found.leaderboard().models
    np.testing.assert_array_equal(one.score, found.leaderboard().score)
    gap = [lrbtl.gap("model-23", "model-00")]
    np.testing.assert_array_equal(lrbtl.infer(votes(), gap, features=TABLE).estimate, found.estimate(gap).estimate)
    pair = lrbtl.compare(votes(), "model-23", "model-00", features=TABLE)
    np.testing.assert_array_equal(pair.gap, found.compare("model-23", "model-00").gap)


def test_no_categories():
    a, b, won, _ = log()
    plain = lrbtl.Battles.from_arrays(np.array(NAMES)[a], np.array(NAMES)[b], won)
    told, without = (
        lrbtl.analyse(plain, features=table).estimate_boards(np.ones((1, 1)))[0] for table in (TABLE, None)
    )
    assert np.all(told.se[21:] < 0.9 * without.se[21:])


def test_results_take_them_too():
    rng = np.random.default_rng(0)
    rows = [(name, f"b{k}", float(rng.normal())) for name in NAMES for k in range(4)]
    long = dict(zip(("model", "benchmark", "score"), map(list, zip(*rows, strict=True)), strict=True))
    one = lrbtl.analyse(lrbtl.Results.from_frame(long, scales="real", features=TABLE)).feature_effects()
    two = lrbtl.analyse(lrbtl.Results.from_frame(long, scales="real"), features=TABLE).feature_effects()
    assert one.labels == two.labels
    np.testing.assert_array_equal(one.estimate, two.estimate)


@pytest.mark.parametrize(
    ("table", "error", "words"),
    [
        ({"model": ["no", "none"], "size": [1, 2]}, ScoreError, "no row for any of the 24 models"),
        ({"name": NAMES, "size": SIZE}, MissingColumnError, "no column 'model'"),
        ([1, 2], InputTypeError, "features are a list: give a data frame"),
        ({"model": NAMES}, MissingColumnError, "no column beside"),
        ({"model": [*NAMES[1:], NAMES[1]], "size": SIZE}, ScoreError, "more than once"),
    ],
)
def test_bad_tables_have_an_error_of_their_own(table, error, words):
    with pytest.raises(error, match=words):
        lrbtl.analyse(votes(), features=table)


@pytest.mark.parametrize("method", ["naive", "mle", "efficient", "whitened"])
def test_other_methods_know_no_features(method):
    with pytest.raises(MethodError, match=f"method='{method}' knows no features"):
        lrbtl.leaderboard(votes(), features=TABLE, method=method)
    with pytest.raises(MethodError, match="leave features"):
        lrbtl.leaderboard(votes(), features=TABLE, compat="arena-rank")


def test_without_features_there_are_no_effects():
    with pytest.raises(CovariateError, match="features="):
        lrbtl.analyse(votes()).feature_effects()


def test_contexts_that_are_searched_in_part_keep_the_features(monkeypatch):
    rng, n, D = np.random.default_rng(2), 12_000, 30
    a, u = rng.integers(0, D1, n), rng.integers(0, D, n)
    b = (a + rng.integers(1, D1, n)) % D1
    won = rng.random(n) < 1.0 / (1.0 + np.exp(LEVEL[b] - LEVEL[a]))
    battles = lrbtl.Battles.from_arrays(np.array(NAMES)[a], np.array(NAMES)[b], won, [u])
    full = lrbtl.analyse(battles, features=TABLE).feature_effects()
    for name, value in (("LARGE_LOG", 0), ("MANY_CONTEXTS", 5), ("PART_CELLS", 3000), ("FEWEST_CONTEXTS", 8)):
        monkeypatch.setattr(large, name, value)
    part = lrbtl.analyse(battles, features=TABLE).feature_effects()
    assert np.all(np.abs(part.estimate - full.estimate) < 0.2 * full.se)


def test_very_many_models_have_no_features():
    n = 1600
    a = np.arange(n)
    many = lrbtl.Battles.from_arrays(a, (a + 1) % n, a % 2, n_models=n)
    with pytest.raises(TooLargeError, match="1,600 models"):
        lrbtl.analyse(many, features={"model": a, "size": a})


def test_a_guess_of_zero_ignores_features():
    none = lrbtl.HierarchicalConfig(feature_size=0.0)
    (values, se), (there, there_se) = (
        board(lrbtl.analyse(votes())),
        board(lrbtl.analyse(votes(), features=TABLE, config=none)),
    )
    assert np.abs(there - values).max() < 0.1 * se.min()
    np.testing.assert_allclose(there_se, se, rtol=0.05)
