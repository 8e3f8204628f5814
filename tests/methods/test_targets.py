"""Targets: values and gradients against finite differences, labels, families, and bad targets."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit

import lrbtl
from lrbtl.errors import GradientError, LrbtlError, TargetError, UnknownContextError, UnknownModelError, WeightError
from lrbtl.inference.targets import FamilyLabels, pair_of
from lrbtl.methods.targets import SparseGradient, evaluate
from lrbtl.model.links import LOGISTIC

SHAPE = (4, 3, 2)


class DenseView:
    """A view of a dense array."""

    link = LOGISTIC
    effect_values = np.empty(0)

    def __init__(self, scores):
        self.scores = scores

    def entries(self, models, contexts):
        return self.scores.reshape(len(self.scores), -1)[models, contexts]

    def dense(self):
        return self.scores


def labelled(shape=SHAPE):
    """Battles that only carry labels: models a, b, ...; levels x0, x1, ... and y0, y1, ..."""
    levels = [[f"{letter}{i}" for i in range(size)] for letter, size in zip("xyz", shape[1:], strict=False)]
    return lrbtl.Battles.from_arrays(
        ["a", "b"],
        ["b", "a"],
        [1, 0],
        [[column[0]] * 2 for column in levels],
        models=list("abcdefgh"[: shape[0]]),
        levels=levels or None,
    )


BATTLES = labelled()
SCORES = np.random.default_rng(0).normal(size=SHAPE)
GAMMA = np.random.default_rng(1).normal(size=SHAPE)
U = ("x2", "y1")


WEIGHTS = np.array([[1.0, 0.0], [1.0, 2.0], [1.0, 3.0]])


def win(i, j, at=(...,)):
    return expit(SCORES[(i, *at)] - SCORES[(j, *at)])


TARGETS = {
    "score": (lrbtl.score("b", U), SCORES[1, 2, 1]),
    "mean score": (lrbtl.score("b", weights="equal"), SCORES[1].mean()),
    "gap": (lrbtl.gap("a", "d", U), SCORES[0, 2, 1] - SCORES[3, 2, 1]),
    "mean gap": (lrbtl.gap("a", "d", weights="equal"), (SCORES[0] - SCORES[3]).mean()),
    "win": (lrbtl.win_probability("a", "d", U), SCORES[0, 2, 1] - SCORES[3, 2, 1]),
    "mean win": (lrbtl.win_probability("a", "d", weights="equal"), logit(win(0, 3).mean())),
    "win rate": (lrbtl.win_rate("c", weights="equal"), logit(np.mean([win(2, j) for j in (0, 1, 3)]))),
    "win rate at": (lrbtl.win_rate("c", context=U), logit(np.mean([win(2, j, (2, 1)) for j in (0, 1, 3)]))),
    "win rate in a pool": (
        lrbtl.win_rate("c", ["a", "c", "b"], weights="equal"),
        logit(np.mean([win(2, j) for j in (0, 1)])),
    ),
    "score of some, among some": (
        lrbtl.score("b", ("x2", None), weights=WEIGHTS, among=["a", "d"]),
        (SCORES[1, 2] - SCORES[[0, 3], 2].mean(axis=0)) @ [0.25, 0.75],
    ),
    "gap by weight": (
        lrbtl.gap("a", "d", weights={("x0", "y0"): 1, U: 3}),
        [0.25, 0.75] @ (SCORES[0] - SCORES[3])[[0, 2], [0, 1]],
    ),
    "win by weight": (lrbtl.win_probability("a", "d", weights=WEIGHTS), logit(np.sum(win(0, 3) * WEIGHTS) / 8)),
    "weighted by name": (
        lrbtl.weighted_score("a", {U: 2.0, ("x0", "y0"): 0.5}),
        2 * SCORES[0, 2, 1] + 0.5 * SCORES[0, 0, 0],
    ),
    "weighted": (lrbtl.weighted_score("a", GAMMA[0]), np.sum(GAMMA[0] * SCORES[0])),
    "linear": (lrbtl.linear(GAMMA), np.sum(GAMMA * SCORES)),
    "tail": (lrbtl.tail_score("a", 3.0), -np.log(np.mean(np.exp(-3.0 * SCORES[0]))) / 3.0),
    "functional": (lrbtl.functional(lambda T: float(np.sum(T**3)), lambda T: 3 * T**2), np.sum(SCORES**3)),
}


def value_at(resolved, view):
    return evaluate([resolved], view)[0][0]


@pytest.mark.parametrize("name", TARGETS)
def test_value_and_gradient(name):
    target, expected = TARGETS[name]
    resolved = target.resolve(BATTLES)
    values, gradients = evaluate([resolved, resolved], DenseView(SCORES))
    value = values[1]
    assert value == pytest.approx(expected, rel=1e-12)
    assert resolved.scale == ("logit" if name.startswith(("win", "mean win")) else "identity")
    slope = np.empty(SHAPE)
    for index in np.ndindex(*SHAPE):
        step = np.zeros(SHAPE)
        step[index] = 1e-5
        above, below = (value_at(resolved, DenseView(SCORES + sign * step)) for sign in (1, -1))
        slope[index] = (above - below) / 2e-5
    found = gradients.by_context(SHAPE[0], 6).toarray()[1].reshape(6, SHAPE[0]).T.reshape(SHAPE)
    np.testing.assert_allclose(found, slope, atol=1e-8)


def test_linear_targets_have_a_constant_gradient():
    linear = {"score", "mean score", "score of some, among some", "gap", "mean gap", "gap by weight", "linear"}
    linear |= {"weighted by name", "weighted"}
    for name, (target, _) in TARGETS.items():
        assert isinstance(target.resolve(BATTLES).kind, SparseGradient) == (name in linear)


@pytest.mark.parametrize(
    ("target", "label"),
    [
        (lrbtl.score("b", U), "score(b, x2 / y1)"),
        (lrbtl.score("b"), "score(b)"),
        (lrbtl.gap("a", "d", U), "gap(a, d, x2 / y1)"),
        (lrbtl.win_probability("a", "d"), "win_probability(a, d)"),
        (lrbtl.win_rate("a"), "win_rate(a)"),
        (
            lrbtl.weighted_score("a", [0.5, 0.25, 0, 0, 0, 1]),
            "weighted_score(a, weights 0.5, 0.25, 0, 0, ... (6 contexts))",
        ),
        (lrbtl.win_rate("a", ["b", "d"], weights="equal"), "win_rate(a, weights equal, among b, d)"),
        (lrbtl.score("a", among=["a", "b"]), "score(a, among a, b)"),
        (lrbtl.linear(GAMMA), "linear"),
        (lrbtl.linear(GAMMA, label="mine"), "mine"),
        (lrbtl.tail_score("a"), "tail_score(a)"),
        (lrbtl.functional(np.sum, np.ones_like, label="sum"), "sum"),
    ],
)
def test_labels(target, label):
    assert target.resolve(BATTLES).label == label
    assert repr(target) == f"Target({label})"


def test_codes_serve_as_well_as_labels():
    by_code = lrbtl.gap(0, 3, (2, 1)).resolve(BATTLES).kind
    by_label = lrbtl.gap("a", "d", U).resolve(BATTLES).kind
    for x, y in zip(vars(by_code).values(), vars(by_label).values(), strict=True):
        np.testing.assert_array_equal(x, y)


def test_a_near_certain_win_rate_keeps_its_gradient():
    scores = np.array([12.0, -12.0, 0.0, 0.0]).reshape(4, 1, 1) + np.zeros(SHAPE)
    values, gradients = evaluate([lrbtl.win_rate("a").resolve(BATTLES)], DenseView(scores))
    assert np.isfinite(values[0]) and np.all(np.isfinite(gradients.weights))


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        (lrbtl.score("bb"), UnknownModelError, "bb"),
        (lrbtl.score(9), UnknownModelError, "9"),
        (lrbtl.score("a", ("x2", "y7")), UnknownContextError, "y7"),
        (lrbtl.score("a", "x2"), LrbtlError, "x2"),
        (lrbtl.score("a", among=[]), TargetError, "among no models"),
        (lrbtl.score("a", among=["zz"]), UnknownModelError, "zz"),
        (lrbtl.score("a", weights="votes"), WeightError, "'equal', 'traffic'"),
        (lrbtl.score("a", ("x1", None), weights={U: 1}), WeightError, "have no weight"),
        (lrbtl.gap("a", "d", weights=[1.0, 2.0]), WeightError, "2 weights"),
        (lrbtl.win_rate("a", weights=np.full(6, -1.0)), WeightError, "not negative"),
        (lrbtl.gap("a", "a"), TargetError, "two different models"),
        (lrbtl.gap("a", 0), TargetError, "two different models"),
        (lrbtl.win_probability("a", "nobody"), UnknownModelError, "nobody"),
        (lrbtl.win_rate("a", pool=[]), TargetError, "no other model"),
        (lrbtl.win_rate("a", pool=["a"]), TargetError, "no other model"),
        (lrbtl.win_rate("a", pool=["b", "zz"]), UnknownModelError, "zz"),
        (lrbtl.weighted_score("a", [1.0, 2.0]), TargetError, "2 weights for 6 contexts"),
        (lrbtl.weighted_score("a", np.full(6, np.nan)), GradientError, "not finite"),
        (lrbtl.weighted_score("a", {("x9", "y0"): 1.0}), UnknownContextError, "x9"),
        (lrbtl.linear(np.ones((4, 3))), TargetError, r"shape \(4, 3\)"),
        (lrbtl.linear(np.full(SHAPE, np.inf)), GradientError, "not finite"),
        (lrbtl.tail_score("a", 0.0), TargetError, "positive"),
    ],
)
def test_bad_targets_are_named(target, error, words):
    with pytest.raises(error, match=words):
        target.resolve(BATTLES)


@pytest.mark.parametrize(
    ("value", "gradient", "words"),
    [
        (lambda T: float(np.sum(T**2)), lambda T: T, "is wrong"),
        (lambda T: float(T[0, 0, 0]), lambda T: np.zeros(SHAPE), "is wrong"),
        (lambda T: float(np.sum(T)), lambda T: np.ones(4), "must be that of the scores"),
        (lambda T: float("nan"), np.ones_like, "not finite"),
        (lambda T: float(np.sum(T)), lambda T: np.full(SHAPE, np.inf), "not finite"),
    ],
)
def test_a_wrong_gradient_is_caught(value, gradient, words):
    with pytest.raises(GradientError, match=words):
        value_at(lrbtl.functional(value, gradient, label="mine").resolve(BATTLES), DenseView(SCORES))


def test_the_gradient_is_checked_once():
    calls = []

    def value(T):
        calls.append(1)
        return float(np.sum(T**2))

    resolved = lrbtl.functional(value, lambda T: 2 * T).resolve(BATTLES)
    value_at(resolved, DenseView(SCORES))
    first = len(calls)
    value_at(resolved, DenseView(SCORES))
    assert first > 1 and len(calls) == first + 1


@given(st.integers(2, 60))
def test_pair_of_lists_all_pairs(d1):
    pairs = [pair_of(i, d1) for i in range(d1 * (d1 - 1) // 2)]
    assert pairs == [(a, b) for a in range(d1) for b in range(a + 1, d1)]


def test_pair_of_is_exact_for_many_models():
    d1 = 30_000
    for a, b in [(0, 1), (0, d1 - 1), (1, 2), (12_345, 12_346), (12_345, d1 - 1), (d1 - 2, d1 - 1)]:
        index = a * d1 - a * (a + 1) // 2 + b - a - 1
        assert pair_of(index, d1) == (a, b)


@pytest.mark.parametrize("shape", [(4,), (4, 3), SHAPE])
def test_family_labels_are_those_of_the_targets(shape):
    battles = labelled(shape)
    D = battles.n_contexts
    contexts = [None] if len(shape) == 1 else [battles.context_label(u) for u in range(D)]
    scores, gaps = lrbtl.all_scores().labels(battles), lrbtl.all_gaps().labels(battles)
    assert list(scores) == [lrbtl.score(a, u).name for a in battles.models for u in contexts]
    pairs = [(a, b) for i, a in enumerate(battles.models) for b in battles.models[i + 1 :]]
    assert list(gaps) == [lrbtl.gap(a, b, u).name for a, b in pairs for u in contexts]
    assert len(scores) == 4 * D and len(gaps) == 6 * D
    assert gaps[-1] == gaps[6 * D - 1] and gaps[1:3] == [gaps[1], gaps[2]]
    assert scores[0] in scores and isinstance(scores, FamilyLabels)
    with pytest.raises(IndexError):
        scores[4 * D]


def test_targets_survive_pickling():
    battles = lrbtl.simulate_battles(np.zeros((4, 3)), 500, rng=0)
    targets = [
        lrbtl.score(0, 1),
        lrbtl.gap(0, 1),
        lrbtl.win_probability(0, 1),
        lrbtl.win_rate(2, [0, 1]),
        lrbtl.weighted_score(1, {0: 0.5, 2: 0.5}),
        lrbtl.linear(np.ones((4, 3)), label="total"),
        lrbtl.tail_score(3),
        lrbtl.functional(np.sum, np.ones_like, label="sum"),
    ]
    view = DenseView(np.random.default_rng(0).normal(size=(4, 3)))
    for target in targets:
        copy = pickle.loads(pickle.dumps(target))
        resolved = pickle.loads(pickle.dumps(copy.resolve(battles)))
        assert repr(copy) == repr(target)
        assert value_at(resolved, view) == value_at(target.resolve(battles), view)
