"""Targets by label, as users build them: scores, gaps, win probabilities, win rates, and any function of the scores."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from lrbtl.data.labels import context_name, find_label
from lrbtl.data.observations import Data, Results
from lrbtl.errors import (
    GradientError,
    TargetError,
    WeightError,
    as_floats,
    check_choice,
    check_type,
    is_within,
    listed,
    spelled,
)
from lrbtl.methods.targets import (
    Functional,
    Resolved,
    SparseGradient,
    resolved_effect,
    resolved_gap,
    resolved_score,
    resolved_win,
    resolved_win_rate,
    soft_minimum,
    sparse_gradient,
    tie_at,
)
from lrbtl.options import strict
from lrbtl.typing import AnyInts, Floats, Longs

MOST_NAMED = 4  # contexts whose weights the label of a target names
SHARPEST = 1e6  # of a soft minimum, beyond which it is the minimum
Weights = Literal["equal", "traffic"] | Mapping[Any, float] | ArrayLike | None


@dataclass(frozen=True)
class Target:
    """Something to estimate; build one with `score`, `gap`, `win_probability`, ..."""

    resolve: Callable[[Data], Resolved]
    name: str

    def __repr__(self) -> str:
        return f"Target({self.name})"


def resolve_targets(battles: Data, targets: Target | Iterable[Target]) -> list[Resolved]:
    """Return targets with their positions; raise where one is no target."""
    resolved = []
    instead = "build targets with lrbtl.score, lrbtl.gap, lrbtl.win_probability, ..."
    for target in [targets] if isinstance(targets, Target) else listed(targets, "targets", instead, TargetError):
        if not isinstance(target, Target):
            raise TargetError(
                f"{target!r} is not a target: build targets with lrbtl.score, lrbtl.gap, lrbtl.win_probability, ..."
            )
        resolved.append(target.resolve(battles))
    if not resolved:
        raise TargetError("no targets were given: pass at least one, for example lrbtl.score(model).")
    return resolved


def context_weights(battles: Data, weights: Weights = None, context: Any = None) -> Floats:
    """Return the weights (D,) of contexts in an average, with sum 1.

    Parameters
    ----------
    battles : Battles or Results
    weights : "equal", "traffic", mapping from context to weight, or array over all contexts
        "traffic" weighs contexts by their battles. None is the default of all calls: "traffic", and "equal" for
        observed entries, which have none.
    context : label, optional
        The average is over the contexts that share its levels, which keep their relative weights. By default all.

    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0, 0], [1, 1, 1], [1, 0, 1], ["code", "math", "math"])
    >>> context_weights(battles, {"math": 2}), context_weights(battles, "traffic").round(2)
    (array([0., 1.]), array([0.33, 0.67]))
    >>> context_weights(battles, "traffic", "code")
    array([1., 0.])
    """
    D = battles.n_contexts
    at = np.arange(D) if context is None else battles.context_indices(context)
    values = np.zeros(D)
    values[at] = 1.0 if len(at) == 1 else _given_weights(battles, weights)[at]
    if values.sum() <= 0:
        raise WeightError(f"the contexts of {context!r} have no weight; give them one, or leave weights out.")
    return np.asarray(values / values.sum())


def default_weights(battles: Data) -> Literal["traffic", "equal"]:
    """Return how contexts are averaged unless said otherwise: one default for targets, boards and decisions."""
    return "equal" if isinstance(battles, Results) else "traffic"


def weights_name(weights: Weights) -> str:
    """Return the words for weights in the label of a target; none for the default.

    >>> weights_name(None), weights_name("equal"), weights_name({"math": 2, "code": 1}), weights_name([0.5, 0.25])
    ('', 'weights equal', 'weights math: 2, code: 1', 'weights 0.5, 0.25')
    """
    if weights is None:
        return ""
    if isinstance(weights, str):
        return f"weights {weights}"
    if isinstance(weights, Mapping):
        words = [f"{context_name(label)}: {_short(weight)}" for label, weight in [*weights.items()][:MOST_NAMED]]
        size = len(weights)
    else:
        values = np.asarray(weights, dtype=object).reshape(-1)
        words, size = [_short(weight) for weight in values[:MOST_NAMED]], len(values)
    more = f", ... ({size} contexts)" if size > MOST_NAMED else ""
    return f"weights {', '.join(words)}{more}"


def weights_note(battles: Data, weights: Weights, context: Any = None) -> str:
    """Return the words for weights that are not the default, where several contexts are averaged; else nothing.

    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], ["code", "math"])
    >>> weights_note(battles, "equal"), weights_note(battles, "traffic"), weights_note(battles, "equal", "math")
    ('weights equal', '', '')
    """
    averaged = battles.n_contexts if context is None else len(battles.context_indices(context))
    default = isinstance(weights, str) and weights == default_weights(battles)
    return "" if default or averaged == 1 else weights_name(weights)


def _short(weight: Any) -> str:
    return f"{float(weight):.4g}" if is_within(weight, -np.inf, np.inf) else spelled(weight)


def _given_weights(battles: Data, weights: Weights) -> Floats:
    D = battles.n_contexts
    if weights is None:
        weights = default_weights(battles)
    if isinstance(weights, str):
        check_choice(weights, ("equal", "traffic"), "weights", WeightError)
        return np.ones(D) if weights == "equal" else battles.context_counts.astype(np.float64)
    if isinstance(weights, Mapping):
        values = np.zeros(D)
        for label, weight in weights.items():
            values += as_floats(weight, f"weight of {label!r}", WeightError) * context_shares(battles, label)
    else:
        values = as_floats(weights, "weights", WeightError).reshape(-1)
        if values.size != D:
            raise WeightError(f"{values.size} weights were given for {D} contexts; give one per context.")
    if not np.all(np.isfinite(values)) or values.min() < 0 or values.sum() <= 0:
        raise WeightError("weights must be finite, not negative, and not all zero.")
    return values


def context_shares(battles: Data, label: Any) -> Floats:
    """Return the weights (D,) that a context named in weights stands for: a tag is its sets, weighted by traffic."""
    if label in battles.tags:
        return context_weights(battles, "traffic", label)
    return np.asarray(np.eye(battles.n_contexts)[battles.context_index(label)])


@strict
def score(model: Any, context: Any = None, *, weights: Weights = None, among: Iterable[Any] | None = None) -> Target:
    """Return the score of a model in a context, or its mean over contexts.

    Parameters
    ----------
    model : label or code
    context : label, optional
        One context, or levels that several share; by default all contexts.
    weights : "equal", "traffic", mapping or array, optional
        How contexts are averaged: by their votes ("traffic", the default here as on boards), all the same, or as
        given. A label names weights that are not the default.
    among : models, optional
        Those whose scores have mean zero; by default all models.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.score("gpt-x", "math")
    Target(score(gpt-x, math))
    """
    chosen = None if among is None else listed(among, "among", "name models", TargetError)
    name = target_name("score", model, context=context, weights=weights, among=chosen)
    return Target(partial(_resolve_score, model, context, weights, chosen), name)


def _resolve_score(model: Any, context: Any, weights: Weights, among: list[Any] | None, battles: Data) -> Resolved:
    i = battles.model_index(model)
    label = _label(battles, "score", [i], context, weights, among)
    inside = None
    if among is not None:
        inside = np.zeros(battles.shape[0], dtype=np.bool_)
        inside[[battles.model_index(other) for other in among]] = True
        if not inside.any():
            raise TargetError(f"{label} is asked for among no models: name at least one, or leave `among` out.")
    return resolved_score(i, context_weights(battles, weights, context), inside, label)


@strict
def effect(name: str, context: Any = None) -> Target:
    """Return the effect of a covariate on votes, in log odds per unit of its scale.

    Parameters
    ----------
    name : str
        A covariate of the battles, or "position".
    context : label, optional
        Needed where each context has its own effects (effects="by_context").

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.effect("length")
    Target(effect(length))
    """
    return Target(partial(_resolve_effect, name, context), target_name("effect", name, context=context))


def _resolve_effect(name: str, context: Any, battles: Data) -> Resolved:
    covariates = () if isinstance(battles, Results) else battles.covariates
    index = {covariate.name: k for k, covariate in enumerate(covariates)}
    if not index:
        raise TargetError(f"effect({name}) is asked for, but no covariate is held fixed: name some with covariates=.")
    k = find_label(index, name, "covariate", TargetError)
    by_context = not isinstance(battles, Results) and battles.effects_by == "context" and bool(battles.levels)
    if by_context == (context is None):
        raise TargetError(
            f"effect({name}): each context has its own effects, name one."
            if by_context
            else f"effect({name}): all contexts share it; leave the context out, or use effects='by_context'."
        )
    u = battles.context_index(context) if by_context else 0
    label = target_name("effect", name, context=context)
    return resolved_effect(u * len(index) + k, (battles.n_contexts if by_context else 1) * len(index), label)


@strict
def gap(a: Any, b: Any, context: Any = None, *, weights: Weights = None) -> Target:
    """Return the score of a minus the score of b in a context, or the mean of that over contexts; see `score`.

    Contexts weigh by their votes, as in `compare`, `gate` and on boards.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.gap("gpt-x", "llama-y"), lrbtl.gap("gpt-x", "llama-y", weights="equal")
    (Target(gap(gpt-x, llama-y)), Target(gap(gpt-x, llama-y, weights equal)))
    """
    name = target_name("gap", a, b, context=context, weights=weights)
    return Target(partial(_resolve_gap, a, b, context, weights), name)


def _resolve_gap(a: Any, b: Any, context: Any, weights: Weights, battles: Data) -> Resolved:
    pair = read_pair(battles, a, b)
    return resolved_gap(
        *pair, context_weights(battles, weights, context), _label(battles, "gap", pair, context, weights)
    )


@strict
def win_probability(a: Any, b: Any, context: Any = None, *, weights: Weights = None) -> Target:
    """Return the probability that a beats b in a context, or the mean of that over contexts; see `score`.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.win_probability("gpt-x", "llama-y", "code")
    Target(win_probability(gpt-x, llama-y, code))
    """
    name = target_name("win_probability", a, b, context=context, weights=weights)
    return Target(partial(_resolve_win_probability, a, b, context, weights), name)


def _resolve_win_probability(a: Any, b: Any, context: Any, weights: Weights, battles: Data) -> Resolved:
    pair = read_pair(battles, a, b)
    label = _label(battles, "win_probability", pair, context, weights)
    return resolved_win(*pair, context_weights(battles, weights, context), label)


def tie_parameter() -> Target:
    """Return the tie parameter of a Davidson or Rao-Kupper link.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.tie_parameter()
    Target(tie_parameter)
    """
    return Target(_resolve_tie_parameter, "tie_parameter")


def _resolve_tie_parameter(battles: Data) -> Resolved:
    return Resolved("tie_parameter", "identity", tie_at)


def entry(*index: Any) -> Target:
    """Return one entry of a completed tensor, by its position along each mode.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.entry(3, 7)
    Target(entry(3, 7))
    """
    name = target_name("entry", *index)
    return Target(partial(_resolve_entry, index, name), name)


def _resolve_entry(index: tuple[Any, ...], name: str, battles: Data) -> Resolved:
    contexts = np.array([battles.context_index(index[1] if len(index) == 2 else index[1:] or None)])
    terms = SparseGradient(np.array([battles.model_index(index[0])]), contexts, np.ones(1))
    return Resolved(name, "identity", terms)


@strict
def win_rate(model: Any, pool: Sequence[Any] | None = None, context: Any = None, *, weights: Weights = None) -> Target:
    """Return the mean probability of beating a pool of models (by default all others); contexts as in `score`.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.win_rate("gpt-x")
    Target(win_rate(gpt-x))
    """
    name = target_name("win_rate", model, context=context, weights=weights, among=pool)
    return Target(partial(_resolve_win_rate, model, pool, context, weights), name)


def _resolve_win_rate(
    model: Any, pool: Sequence[Any] | None, context: Any, weights: Weights, battles: Data
) -> Resolved:
    i = battles.model_index(model)
    label = _label(battles, "win_rate", [i], context, weights, pool)
    members = range(battles.shape[0]) if pool is None else [battles.model_index(other) for other in pool]
    others = np.array([j for j in members if j != i], dtype=np.int64)
    if not len(others):
        raise TargetError(f"the pool of {label} holds no other model: name at least one model to play against.")
    return resolved_win_rate(i, others, context_weights(battles, weights, context), label)


@strict
def weighted_score(model: Any, weights: Mapping[Any, float] | ArrayLike) -> Target:
    """Return the weighted sum of a model's scores over contexts; weights are used as given.

    Parameters
    ----------
    model : label or code
    weights : mapping from context to weight, or array over all contexts

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.weighted_score("gpt-x", {"math": 0.7, "code": 0.3})
    Target(weighted_score(gpt-x, weights math: 0.7, code: 0.3))
    """
    name = target_name("weighted_score", model, weights=weights)
    return Target(partial(_resolve_weighted_score, model, weights), name)


def _resolve_weighted_score(model: Any, weights: Mapping[Any, float] | ArrayLike, battles: Data) -> Resolved:
    i = battles.model_index(model)
    label = _label(battles, "weighted_score", [i], None, weights)
    if isinstance(weights, Mapping):
        shares = [
            as_floats(weight, f"weight of {spelled(label)}", WeightError) * context_shares(battles, label)
            for label, weight in weights.items()
        ]
        values = np.sum(shares, axis=0) if shares else np.zeros(battles.n_contexts)
        contexts = np.flatnonzero(values)
        values = values[contexts]
    else:
        values = as_floats(weights, "weights", WeightError).reshape(-1)
        contexts = np.arange(battles.n_contexts)
        if len(values) != len(contexts):
            raise TargetError(f"{label} has {len(values)} weights for {len(contexts)} contexts: give one per context.")
    _check_finite(values, label)
    return Resolved(label, "identity", SparseGradient(np.full(len(contexts), i), contexts, values))


def linear(gamma: ArrayLike, label: str | None = None) -> Target:
    """Return the inner product of the scores with an array of their shape.

    Examples
    --------
    >>> import lrbtl, numpy as np
    >>> lrbtl.linear(np.eye(3)[:, :2], label="my contrast")
    Target(my contrast)
    """
    name = _named(label, "linear")
    return Target(partial(_resolve_linear, as_floats(gamma, name, TargetError), name), name)


def _resolve_linear(array: Floats, name: str, battles: Data) -> Resolved:
    if array.shape != battles.shape:
        raise TargetError(f"{name} has shape {array.shape} but the scores have shape {battles.shape}.")
    _check_finite(array, name)
    return Resolved(name, "identity", sparse_gradient(array))


def tail_score(model: Any, sharpness: float = 4.0) -> Target:
    """Return a soft minimum of a model's scores over contexts: -log(mean(exp(-sharpness * score))) / sharpness.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.tail_score("gpt-x")
    Target(tail_score(gpt-x))
    """
    return Target(partial(_resolve_tail_score, model, sharpness), target_name("tail_score", model))


def _resolve_tail_score(model: Any, sharpness: float, battles: Data) -> Resolved:
    i = battles.model_index(model)
    label = _label(battles, "tail_score", [i], None)
    if not is_within(sharpness, 0.0, SHARPEST):
        raise TargetError(f"{label} has sharpness {spelled(sharpness)}: give a positive number up to {SHARPEST:g}.")
    contexts = np.arange(battles.n_contexts)
    return Resolved(label, "identity", partial(soft_minimum, np.full(len(contexts), i), contexts, sharpness))


def functional(
    value: Callable[[Floats], float], gradient: Callable[[Floats], ArrayLike], label: str | None = None
) -> Target:
    """Return any smooth function of the scores, given with its gradient (an array of the scores' shape).

    The gradient is checked once against numerical differences at the first fit.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.functional(lambda scores: float((scores**2).sum()), lambda scores: 2 * scores, label="energy")
    Target(energy)
    """
    name = _named(label, "functional")
    for function, what in ((value, "value"), (gradient, "gradient")):
        if not callable(function):
            raise TargetError(f"{what}={spelled(function)}: give a function of the scores.")
    return Target(partial(_resolve_functional, value, gradient, name), name)


def _resolve_functional(
    value: Callable[[Floats], float], gradient: Callable[[Floats], ArrayLike], name: str, battles: Data
) -> Resolved:
    return Resolved(name, "identity", Functional(value, gradient, name))


def _named(label: str | None, kind: str) -> str:
    """Return the name of a target of one's own."""
    check_type(label, (str, type(None)), "label", "give a text")
    return label or kind


def read_pair(battles: Data, a: Any, b: Any) -> tuple[int, int]:
    """Return the positions of two models; raise where they are one."""
    i, j = battles.model_index(a), battles.model_index(b)
    if i == j:
        raise TargetError(f"{spelled(a)} is compared with itself: name two different models.")
    return i, j


def _check_finite(values: Floats, name: str) -> None:
    if not np.all(np.isfinite(values)):
        raise GradientError(f"the weights of {name} are not finite: check them for NaN and infinity.")


def _label(
    battles: Data,
    kind: str,
    models: Sequence[int],
    context: Any,
    weights: Weights = None,
    among: Sequence[Any] | None = None,
) -> str:
    """Return the name of a target with the battles' own labels; weights too, where they are not the default."""
    named = None if context is None else battles.context_title(context)
    given = weights if weights_note(battles, weights, context) else None
    return target_name(kind, *(battles.models[i] for i in models), context=named, weights=given, among=among)


def target_name(
    kind: str, *models: Any, context: Any = None, weights: Weights = None, among: Sequence[Any] | None = None
) -> str:
    """Return the text that names a target.

    >>> target_name("win_rate", "x", weights="equal", among=["y", "z"])
    'win_rate(x, weights equal, among y, z)'
    """
    parts = [str(model) for model in models]
    if context is not None:
        parts.append(context_name(context))
    if weights is not None:
        parts.append(weights_name(weights))
    if among is not None:
        few = isinstance(among, list | tuple) and len(among) <= MOST_NAMED
        parts.append(f"among {', '.join(map(str, among))}" if few else f"among {len(among)} models")
    return f"{kind}({', '.join(parts)})"


# ------------------------------------------------------------------------------
# Families of targets: every score, or every gap, at once.
# ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """Every score, or every gap, at once; see `all_scores` and `all_gaps`."""

    kind: Literal["scores", "gaps"]

    def labels(self, battles: Data) -> "FamilyLabels":
        """Return the labels, made when they are read."""
        return FamilyLabels(battles, self.kind)


def all_scores() -> Family:
    """Return the family of all scores, model by model, contexts in order within a model.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.all_scores()
    Family(kind='scores')
    """
    return Family("scores")


def all_gaps() -> Family:
    """Return the family of all gaps: pairs (a, b), a before b, contexts in order within a pair.

    Examples
    --------
    >>> import lrbtl
    >>> lrbtl.all_gaps()
    Family(kind='gaps')
    """
    return Family("gaps")


@dataclass(frozen=True)
class FamilyLabels(Sequence[str]):
    """Labels of a family, made one by one on demand: there can be millions."""

    battles: Data
    kind: str

    def __len__(self) -> int:
        d1, contexts = self.battles.shape[0], self.battles.n_contexts
        return contexts * (d1 if self.kind == "scores" else d1 * (d1 - 1) // 2)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        i = range(len(self))[i]
        battles, contexts = self.battles, self.battles.n_contexts
        context = battles.context_label(i % contexts) if len(battles.shape) > 1 else None
        if isinstance(battles, Results) and self.kind == "scores":
            rest = context if isinstance(context, tuple) else () if context is None else (context,)
            return target_name("entry", battles.models[i // contexts], *rest)
        if self.kind == "scores":
            return target_name("score", battles.models[i // contexts], context=context)
        a, b = pair_of(i // contexts, battles.shape[0])
        return target_name("gap", battles.models[a], battles.models[b], context=context)

    def __iter__(self) -> Iterator[str]:
        return (self[i] for i in range(len(self)))


def pair_of(index: int, d1: int) -> tuple[int, int]:
    """Return the pair a < b at a position of the lexicographic list of pairs."""
    a = int(d1 - 2 - np.floor((np.sqrt(4 * d1 * (d1 - 1) - 8 * index - 7) - 1) / 2))
    return a, int(index + a + 1 - (d1 * (d1 - 1) - (d1 - a) * (d1 - a - 1)) // 2)


def pair_rows(a: AnyInts, b: AnyInts, d1: int) -> Longs:
    """Return the positions of pairs a < b in the lexicographic list of pairs: what `pair_of` inverts.

    >>> pair_rows(np.array([0, 0, 1]), np.array([1, 2, 2]), 3).tolist(), pair_of(2, 3)
    ([0, 1, 2], (1, 2))
    """
    first = a.astype(np.int64)
    return first * (2 * d1 - first - 3) // 2 + b - 1
