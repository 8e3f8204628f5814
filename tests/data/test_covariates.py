"""Covariates, position, weights and clusters as they are read, counted, selected, added and split."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from lrbtl import errors
from lrbtl.data.covariates import Covariate, check_covariates
from lrbtl.data.folds import fold_counts

FRAME = {
    "model_a": ["x", "y", "z", "x", "x", "z"],
    "model_b": ["y", "x", "x", "z", "y", "y"],
    "winner": [1, 0, 1, 0, 1, 1],
    "topic": ["m", "c", "m", "c", "m", "c"],
    "tokens_a": [100, 300, 0, 50, 100, 9],
    "tokens_b": [300, 100, 0, 100, 300, 5],
    "w": [1.0, 2.0, 0.0, 1.0, 1.0, 3.0],
    "voter": ["u", "v", "u", "w", "u", "v"],
}
LENGTH = {"length": ("tokens_a", "tokens_b")}


def read(frame=FRAME, **options):
    return lrbtl.Battles.from_frame(frame, contexts="topic", **options)


def rows_of(battles):
    """Every vote of some battles, written out, with labels."""
    cells, out = battles.cells, []
    for i in range(cells.n_cells):
        carried = () if cells.slopes is None else tuple(np.round(cells.slopes[i], 12))
        weight = None if cells.weight is None else cells.weight[i]
        clusters = (
            ()
            if cells.clusters is None
            else tuple(labels[k] for labels, k in zip(battles.cluster_labels, cells.clusters[i], strict=True))
        )
        key = battles.context_label(int(cells.context[i])), battles.models[cells.a[i]], battles.models[cells.b[i]]
        out += [(*key, cells.y[i], carried, weight, clusters)] * int(cells.count[i])
    return sorted(out, key=str)


def test_rules_follow_their_formulas():
    a, b = np.array(FRAME["tokens_a"], float), np.array(FRAME["tokens_b"], float)
    rules = {"relative": [-0.5, 0.5, 0.0, -1 / 3, -0.5, 2 / 7], "difference": a - b, "log": np.log((1 + a) / (1 + b))}
    for rule, expected in rules.items():
        battles = read(covariates={"length": ("tokens_a", "tokens_b", rule)})
        swapped = np.array([m > o for m, o in zip(FRAME["model_a"], FRAME["model_b"], strict=True)])
        values = sorted(np.where(swapped, -np.asarray(expected), expected).round(12) + 0.0)
        votes = sorted(np.repeat(battles.cells.slopes[:, 0], battles.cells.count).round(12))
        assert np.allclose(votes, values)
        assert battles.covariates[0].scale == pytest.approx(np.sqrt(np.mean(np.square(expected))))


def test_votes_are_one_cell_only_if_all_that_they_carry_agrees():
    assert read().n_cells == 5
    assert read(covariates=LENGTH, position=True).n_cells == 5
    assert read(covariates=LENGTH, cluster="voter", position=True).n_cells == 5
    other = {**FRAME, "voter": ["u", "v", "u", "w", "w", "v"]}
    assert read(other, covariates=LENGTH, cluster="voter").n_cells == 6
    assert read(weight="w").n_battles == 5  # a vote of weight 0 says nothing


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.lists(st.booleans(), min_size=6, max_size=6))
def test_cells_do_not_depend_on_row_order_or_sides(order, swap):
    frame = {name: [column[i] for i in order] for name, column in FRAME.items()}
    for i, exchanged in enumerate(swap):
        if exchanged:
            for left, right in (("model_a", "model_b"), ("tokens_a", "tokens_b")):
                frame[left][i], frame[right][i] = frame[right][i], frame[left][i]
            frame["winner"][i] = 1 - frame["winner"][i]
    options = {"covariates": LENGTH, "weight": "w", "cluster": "voter"}
    plain, other = read(**options), read(frame, **options)
    for name in ("context", "a", "b", "y", "count", "slopes", "weight", "clusters"):
        assert np.array_equal(getattr(plain.cells, name), getattr(other.cells, name))


def test_adding_selecting_pooling_and_splitting_carry_everything():
    options = {"covariates": LENGTH, "position": True, "weight": "w", "cluster": ["voter", "topic"]}
    battles = read(**options)
    parts = [{name: column[k] for name, column in FRAME.items()} for k in (slice(0, 3), slice(3, 6))]
    added = read(parts[0], **options) + read(parts[1], **options)
    assert rows_of(added) == rows_of(battles)
    assert added.cluster_labels == battles.cluster_labels
    assert np.allclose([c.scale for c in added.covariates], [c.scale for c in battles.covariates])
    chosen = battles.select(models=["z", "x"], contexts=["c"])
    assert rows_of(chosen) == [row for row in rows_of(battles) if row[0] == "c" and {row[1], row[2]} == {"x", "z"}]
    assert sorted(row[1:] for row in rows_of(battles)) == sorted(row[1:] for row in rows_of(battles.pooled()))
    train, held_out = (
        battles.with_counts(np.arange(battles.n_cells) % 2),
        battles.with_counts(battles.cells.count - np.arange(battles.n_cells) % 2),
    )
    assert rows_of(train + held_out) == rows_of(battles)


def test_weights_and_effective_number():
    battles = read(weight="w")
    w = np.array([1.0, 2.0, 1.0, 1.0, 3.0])
    assert battles.n_effective == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert "worth 4 votes of equal weight" in battles.summary()
    rng = np.random.default_rng(0)
    a, b = np.array([0] * 200 + [0] * 20), np.array([1] * 200 + [2] * 20)
    reweighted = lrbtl.Battles.from_arrays(a, b, rng.integers(0, 2, 220), reweight="pairs")
    by_pair = {int(other): w for other, w in zip(reweighted.cells.b, reweighted.vote_weights, strict=True)}
    assert by_pair == {1: 1 / 200, 2: 1 / 50}
    assert read().n_effective == 6


def test_arrays_carry_the_same_as_frames():
    columns = {name: np.array(column) for name, column in FRAME.items()}
    battles = lrbtl.Battles.from_arrays(
        columns["model_a"],
        columns["model_b"],
        columns["winner"],
        columns["topic"],
        covariates={"length": (columns["tokens_a"], columns["tokens_b"], "log"), "own": columns["w"]},
        position=True,
        weight=columns["w"],
        cluster={"voter": columns["voter"]},
    )
    other = read(
        covariates={"length": ("tokens_a", "tokens_b", "log"), "own": "w"}, position=True, weight="w", cluster="voter"
    )
    assert rows_of(battles) == rows_of(other)
    assert [c.name for c in battles.covariates] == ["length", "own", "position"]
    alone = lrbtl.Battles.from_arrays(
        columns["model_a"], columns["model_b"], columns["winner"], cluster=columns["voter"]
    )
    assert alone.cluster_names == ("cluster",)
    assert read(covariates="w").covariates[0].rule == "as is"


@pytest.mark.parametrize(
    ("options", "changes", "error", "words"),
    [
        ({"covariates": LENGTH}, {"tokens_a": [1, 2, np.inf, 3, 4, 5]}, errors.CovariateError, "row 2"),
        ({"covariates": LENGTH}, {"tokens_a": ["q"] * 6}, errors.CovariateError, "not numbers"),
        ({"covariates": LENGTH}, {"tokens_a": [-1, 2, 3, 3, 4, 5]}, errors.CovariateError, "negative"),
        ({"covariates": {"l": ("tokens_a", "tokens_b", "ratio")}}, {}, errors.CovariateError, "'ratio' is not known"),
        ({"covariates": {"position": "w"}, "position": True}, {}, errors.CovariateError, "repeat a name"),
        ({"covariates": [3]}, {}, errors.CovariateError, "name columns"),
        ({"covariates": "nope"}, {}, errors.MissingColumnError, "nope"),
        ({"weight": "w"}, {"w": [1, 2, -3, 1, 1, 1]}, errors.VoteWeightError, "-3 in row 2"),
        ({"weight": "w"}, {"w": [0] * 6}, errors.VoteWeightError, "no vote counts"),
        ({"cluster": "voter"}, {"voter": ["u"] * 6}, errors.ClusterError, "same voter"),
        ({"cluster": ["voter", "voter"]}, {}, errors.ClusterError, "repeats"),
        ({"cluster": 3}, {}, errors.ClusterError, "names no column"),
        ({"cluster": "voter"}, {"voter": ["u"] * 5 + [None]}, errors.MissingValueError, "voter"),
        ({"cluster": "voter"}, {"voter": ["u", "v"] * 2}, errors.LengthMismatchError, "voter: 4"),
        ({"reweight": "models"}, {}, errors.VoteWeightError, "models"),
    ],
)
def test_bad_input_is_named(options, changes, error, words):
    with pytest.raises(error, match=words):
        read({**FRAME, **changes}, **options)


def test_a_constant_covariate_is_refused_unless_rows_are_few():
    many = {name: column * 4 for name, column in FRAME.items()}
    with pytest.raises(errors.CovariateError, match="position=True"):
        read({**many, "w": [2.0] * 24}, covariates="w")
    assert read({**FRAME, "w": [2.0] * 6}, covariates="w").covariates[0].scale == 2.0


@pytest.mark.parametrize(
    ("names", "changes", "words"),
    [
        (["w", "v"], {"v": [2.0, 4, 0, 2, 2, 6]}, "'v' is a combination of 'w'"),
        (["size"], {"size": [1, -1, 2, -2, 1, 3]}, "their scores"),
        (["w"], {"winner": [1, 0, 0.5, 0, 1, 1], "w": [0, 0, 1, 0, 0, 0]}, "zero in all"),
    ],
)
def test_covariates_that_say_nothing_new_are_named(names, changes, words):
    battles = read({**FRAME, **changes}, covariates=names, ties="drop")
    with pytest.raises(errors.CovariateError, match=words):
        check_covariates(battles.cells, battles.covariates, 3)


def test_logs_that_carry_other_things_cannot_be_added():
    with pytest.raises(errors.CovariateError, match="length"):
        read(covariates=LENGTH) + read()
    with pytest.raises(errors.ClusterError, match="voter"):
        read(cluster="voter") + read()
    with pytest.raises(errors.VoteWeightError, match="pairs"):
        read(reweight="pairs") + read()
    both = read() + read(weight="w")
    assert both.cells.weight is not None
    assert both.cells.count @ both.cells.weight == 6 + 8


def test_examples_in_words():
    assert Covariate("length", "relative", 0.5, "tokens", 100.0).example() == ("100 more tokens against 100", 2 / 3)
    assert Covariate("length", "difference", 200.0, "tokens", 100.0).example() == ("100 more tokens", 0.5)
    assert Covariate("gap", "as is", 2.0, "gap", 1.0).example() == ("gap up by 1", 0.5)
    assert Covariate("position", "position").example() == ("shown first", 1.0)


def voters(n=900, n_voters=60, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 6, n)
    return lrbtl.Battles.from_arrays(
        a,
        (a + rng.integers(1, 6, n)) % 6,
        rng.integers(0, 2, n),
        rng.integers(0, 3, n),
        cluster={"voter": np.minimum(rng.geometric(2 / n_voters, n), n_voters)},
        covariates={"x": rng.standard_normal(n)},
    )


def test_folds_keep_clusters_together_and_lose_no_context():
    battles = voters()
    folds = fold_counts(battles.cells, 5, rng=1)
    assert np.array_equal(folds.sum(axis=0), battles.cells.count)
    of_cell = folds.argmax(axis=0)
    for cluster in np.unique(battles.cells.clusters[:, 0]):
        assert len(np.unique(of_cell[battles.cells.clusters[:, 0] == cluster])) == 1
    sizes = folds.sum(axis=1)
    assert sizes.max() <= 1.2 * sizes.min()
    for u in range(3):
        assert len(np.unique(of_cell[battles.cells.context == u])) > 1
    assert np.array_equal(folds, fold_counts(battles.cells, 5, rng=1))
    with pytest.raises(errors.FoldError, match="clusters cannot fill 80 folds"):
        battles.split(80)


def test_a_context_of_one_cluster_cannot_be_split():
    frame = {**FRAME, "voter": ["u", "v", "u", "v", "u", "v"]}
    with pytest.raises(errors.FoldError, match="single cluster"):
        read(frame, cluster="voter").split(2)


def test_two_clusters_of_a_context_go_to_two_folds():
    n = 40
    battles = lrbtl.Battles.from_arrays(
        [0] * n, [1] * n, [0, 1] * (n // 2), ["m"] * 30 + ["c"] * 10, cluster=[f"v{k % 2}" for k in range(n)]
    )
    for train, held_out in battles.split(2):
        assert train.context_counts.all()
        assert held_out.context_counts.all()


def test_saved_battles_keep_what_votes_carry(tmp_path):
    battles = read(covariates=LENGTH, position=True, weight="w", cluster=["voter", "topic"], reweight="pairs")
    battles.save(tmp_path / "state.lrbtl")
    other = lrbtl.Battles.load(tmp_path / "state.lrbtl")
    assert rows_of(other) == rows_of(battles)
    assert (other.covariates, other.cluster_names, other.reweight) == (battles.covariates, ("voter", "topic"), "pairs")
    assert np.array_equal(other.vote_weights, battles.vote_weights)
