"""Every error and warning that lrbtl raises, in one flat list, and the checks of options that all parts share.

A message says what is wrong, where, and what to do next.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray


class ErrorData:
    """What errors and warnings carry beside their text: a code, and what the text is about as data.

    Attributes
    ----------
    data : dict
        Arguments, names and numbers of the text, such as ``{"argument": "method", "value": "x", "choices": (...)}``.

    Examples
    --------
    >>> error = UnknownModelError("unknown model 'gpt'", argument="model", value="gpt")
    >>> error.code, error.data
    ('unknown-model', {'argument': 'model', 'value': 'gpt'})
    """

    data: dict[str, Any]

    def __init__(self, *args: object, **data: Any) -> None:
        super().__init__(*args)
        self.data = data

    @property
    def code(self) -> str:
        """A name of the kind of problem for programs, which does not change with the text: "unknown-model"."""
        return CODE_WORDS.sub("-", type(self).__name__.removesuffix("Error").removesuffix("Warning")).lower()


CODE_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


class LrbtlError(ErrorData, Exception):
    """Base of all errors raised by lrbtl."""


class LrbtlWarning(ErrorData, UserWarning):
    """Base of all warnings issued by lrbtl."""


class RankError(LrbtlError, ValueError):
    """A rank that no score tensor of this shape has."""


class SamplingError(LrbtlError, ValueError):
    """A sampling law that is none, does not fit the battles, or cannot be estimated from them."""


class SeparationError(LrbtlError, ValueError):
    """A gap between models that the battles leave infinite or unknown."""


class SeparationWarning(LrbtlWarning):
    """Scores that do not exist, because some models only win, only lose, or never meet."""


class SimulationError(LrbtlError, ValueError):
    """Arguments from which no scores or battles can be simulated."""


class EmptyDataError(LrbtlError, ValueError):
    """No battle is left to work with."""


class MissingValueError(LrbtlError, ValueError):
    """A column holds None or NaN."""


class LengthMismatchError(LrbtlError, ValueError):
    """Columns that belong together have different lengths."""


class InputTypeError(LrbtlError, TypeError):
    """An argument is of a kind that cannot be read as battles."""


class MissingColumnError(LrbtlError, KeyError):
    """A frame lacks a column that was asked for."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class UnknownOutcomeError(LrbtlError, ValueError):
    """The outcome column holds words that have no meaning yet."""


class AmbiguousOutcomeError(LrbtlError, ValueError):
    """An outcome may be the name of a model as well as a word for a side."""


class TagError(LrbtlError, ValueError):
    """Tags that cannot be read: no list, no text and no 0 or 1, or a name that sets of tags cannot show."""


class ExplodedRowsWarning(LrbtlWarning):
    """Rows that look like copies of one vote under several labels."""


class OutcomeRangeError(LrbtlError, ValueError):
    """An outcome is a number outside [0, 1]."""


class CountError(LrbtlError, ValueError):
    """Multiplicities are negative, not whole, or too large."""


class CodeRangeError(LrbtlError, ValueError):
    """An integer code lies outside its range."""


class LabelError(LrbtlError, ValueError):
    """A list of labels is inconsistent: repeated, of the wrong length, or given for the wrong kind of column."""


class MixedLabelError(LrbtlError, TypeError):
    """Labels of one axis are of types that cannot be ordered together."""


class TooFewModelsError(LrbtlError, ValueError):
    """Fewer than two models are compared."""


class TooLargeError(LrbtlError, ValueError):
    """More contexts or possible cells than an index can hold."""


class ContextModeError(LrbtlError, ValueError):
    """Context modes do not fit: other names, another number, or a tuple of the wrong length."""


class UnknownModelError(LrbtlError, KeyError):
    """A model that the battles do not contain."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class UnknownContextError(LrbtlError, KeyError):
    """A context level that the battles do not contain."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class FoldError(LrbtlError, ValueError):
    """The battles cannot be split into that many folds."""


class SelfBattleWarning(LrbtlWarning):
    """Battles of a model against itself were dropped."""


class SingularInformationError(LrbtlError, ValueError):
    """A direction of the score tensor that no battle informs."""


class ConvergenceWarning(LrbtlWarning):
    """An iteration stopped before it reached its goal."""


class RidgeError(LrbtlError, ValueError):
    """A ridge that is not a non-negative number per mode."""


class UninformedError(LrbtlError, ValueError):
    """A model or context level that no battle informs."""


class RankCollapseWarning(LrbtlWarning):
    """A fit whose penalty removed part of the rank."""


class EstimateError(LrbtlError, ValueError):
    """An estimate cannot be built from these arrays, or asked this question."""


class CovarianceError(LrbtlError, ValueError):
    """A covariance that was not kept, or that is none."""


class DifferentRunsError(LrbtlError, ValueError):
    """Estimates of different runs, between which no covariance is known."""


class UnknownTargetError(LrbtlError, KeyError):
    """A label that is not among the targets of an estimate."""

    def __str__(self) -> str:
        return Exception.__str__(self)


class LevelError(LrbtlError, ValueError):
    """A confidence level outside (0, 1)."""


class ScaleError(LrbtlError, ValueError):
    """A scale that does not exist, or that a target does not have."""


class BoundError(LrbtlError, ValueError):
    """A bound or a comparison that the run did not compute."""


class FrameBackendError(LrbtlError, ImportError):
    """A frame library that is not installed or not known."""


class TargetError(LrbtlError, ValueError):
    """A target that does not fit the battles."""


class GradientError(LrbtlError, ValueError):
    """A gradient that is wrong or not finite."""


class SolverError(LrbtlError, ValueError):
    """A solver that cannot serve what was asked for."""


class MissingExtraError(LrbtlError, ImportError):
    """A package of an optional extra is not installed."""


class OutputPathError(LrbtlError, OSError):
    """A path to which no file can be written."""


class LockedFileError(LrbtlError, OSError):
    """A file that another process changes."""


class PlotError(LrbtlError, ValueError):
    """Arguments from which no picture can be drawn."""


class ReportError(LrbtlError, ValueError):
    """Arguments from which no report can be written."""


class MethodError(LrbtlError, ValueError):
    """An option that is not known, or not of the form it should have."""


class NoDecisionError(LrbtlError, ValueError):
    """Battles that rank nobody: only ties, or none where they were asked for."""


class CovariateError(LrbtlError, ValueError):
    """A covariate that cannot be read, explains nothing, or is a combination of others."""


class ClusterError(LrbtlError, ValueError):
    """Clusters that allow no errors: a single one, or columns that do not fit."""


class ClusterWarning(LrbtlWarning):
    """So few clusters that errors which allow for them are rough."""


class VoteWeightError(LrbtlError, ValueError):
    """Weights of votes that are negative, not finite, or all zero."""


class MarginError(LrbtlError, ValueError):
    """A margin or a width that is no size of a gap."""


class PowerError(LrbtlError, ValueError):
    """A power outside (0, 1), or one that is asked for together with a width."""


class PlanError(LrbtlError, ValueError):
    """A goal, a budget or a constraint for which no votes can be planned."""


class LooksError(LrbtlError, ValueError):
    """Looks at results that were not planned, or that cannot be."""


class CostError(LrbtlError, ValueError):
    """Costs of models that cannot be read, are negative, or are missing for nearly all."""


class DocumentError(LrbtlError, ValueError):
    """JSON that is no board, not a whole one, or of another version of the format."""


class WeightError(LrbtlError, ValueError):
    """Weights of contexts that make no mean."""


class IslandWarning(LrbtlWarning):
    """Groups of models that no battle links, each with a board of its own."""


class FileReadError(LrbtlError, OSError):
    """A file that cannot be read as battles."""


class StateVersionError(FileReadError):
    """A file of battles that a newer lrbtl wrote."""


class RepeatedFileError(LrbtlError, ValueError):
    """A file whose battles a state holds already."""


class OptionError(LrbtlError, TypeError):
    """An option that a function does not have."""


class UsageError(LrbtlError, ValueError):
    """Options of the command line that do not go together."""


class LinkError(LrbtlError, ValueError):
    """A link that is not known, or that does not fit the responses."""


class ObservationError(LrbtlError, ValueError):
    """Observed entries with indices, values or variances that cannot be used."""


class ScoreError(LrbtlError, ValueError):
    """Scores that are no numbers, or that their scale does not allow."""


class UndeterminedRankWarning(LrbtlWarning):
    """A rank that predicts better than the chosen one but that the battles do not determine."""


class ThinContextWarning(LrbtlWarning):
    """Contexts with too few battles for the intervals of the method."""


class VarianceWarning(LrbtlWarning):
    """Given variances that the residuals contradict."""


class ChangeError(LrbtlError, ValueError):
    """Two boards that cannot be compared."""


class InfluenceError(LrbtlError, ValueError):
    """A question about the influence of votes that has no answer."""


class PeriodError(LrbtlError, ValueError):
    """Times that cannot be read, or periods that are no history."""


class UnevenSamplingWarning(LrbtlWarning):
    """Votes that are not sampled uniformly, given to an algorithm that takes them as such."""


class WeakSignalWarning(LrbtlWarning):
    """Scores whose weakest direction hardly exceeds the noise: intervals cover less than they say."""


# ------------------------------------------------------------------------------
# Warnings that point at the line of the user who caused them.
# ------------------------------------------------------------------------------


Listener = Callable[[LrbtlWarning], object]
_listener: ContextVar[Listener | None] = ContextVar("lrbtl_warnings", default=None)


def warn_user(message: str, category: type[LrbtlWarning], **data: Any) -> None:
    """Warn at the first line outside of lrbtl, whatever the way there; `data` is what the warning carries."""
    warning = category(message, **data)
    if (listener := _listener.get()) is not None:
        listener(warning)
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(warning, stacklevel=level)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Give our own warnings to a function instead, in this thread and those that it starts for its work.

    `warnings.catch_warnings` would change the filters of the whole process, and with threads it leaves them changed.

    >>> heard = []
    >>> with heard_by(heard.append):
    ...     warn_user("a pair never met", SeparationWarning)
    >>> str(heard[0])
    'a pair never met'
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def without(*categories: type[LrbtlWarning]) -> Iterator[None]:
    """Leave out warnings of some kinds, which the caller says by itself; the others go on as they would."""
    outer = _listener.get()

    def listener(warning: LrbtlWarning) -> None:
        if isinstance(warning, categories):
            return
        token = _listener.set(outer)
        try:
            warn_user(str(warning), type(warning), **warning.data)
        finally:
            _listener.reset(token)

    with heard_by(listener):
        yield


def _is_ours(module: str) -> bool:
    return module == "lrbtl" or module.startswith("lrbtl.")


# ------------------------------------------------------------------------------
# Options that are one of some words, a whole number or a source of randomness.
# ------------------------------------------------------------------------------


def check_choice(value: object, choices: tuple[str, ...], name: str, error: type[LrbtlError] = MethodError) -> None:
    """Raise where an option is none of the known ones."""
    if not isinstance(value, str) or value not in choices:
        raise error(
            f"{name}={spelled(value)} is not known; choose one of {', '.join(map(repr, choices))}.",
            argument=name,
            value=value,
            choices=choices,
        )


def check_whole(value: Any, name: str, least: int = 1, error: type[LrbtlError] = MethodError) -> None:
    """Raise `MethodError` unless an option is a whole number, of at least 1 by default."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise error(f"{name}={spelled(value)}: give a whole number of at least {least}.", argument=name, value=value)


def is_within(value: Any, low: float, high: float) -> bool:
    """Return whether a value is a number, no bool, strictly between two others; numbers too large for a float are not.

    >>> is_within(3, 0, 10), is_within(10**400, 0, np.inf), is_within("3", 0, 10)
    (True, False, False)
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return False
    try:
        return low < float(value) < high
    except (OverflowError, ValueError):
        return False


def check_flag(value: Any, name: str, error: type[LrbtlError] = MethodError) -> None:
    """Raise unless an option is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{name}={spelled(value)}: give True or False.", argument=name, value=value)


def check_type(value: Any, kinds: type | tuple[type, ...], name: str, instead: str) -> None:
    """Raise `InputTypeError` unless an argument is of some class; the message says what to give instead.

    >>> check_type(3, str, "title", "give a text")
    Traceback (most recent call last):
    lrbtl.errors.InputTypeError: title=3 is not of the kind needed: give a text.
    """
    if not isinstance(value, kinds):
        raise InputTypeError(
            f"{name}={spelled(value)} is not of the kind needed: {instead}.", argument=name, value=value
        )


def listed(values: Any, name: str, instead: str, error: type[LrbtlError] = InputTypeError) -> list[Any]:
    """Return the parts of an argument that is a list of things; raise where it is none.

    >>> listed((1, 2), "ranks", "give a list of ranks")
    [1, 2]
    """
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise error(f"{name}={spelled(values)} is not a list: {instead}.", argument=name, value=values)
    try:
        return list(values)
    except TypeError as reason:  # an array without dimensions
        raise error(f"{name}={spelled(values)} is not a list: {instead}.", argument=name, value=values) from reason


LONGEST_SHOWN = 80  # characters of a value in a message


def spelled(value: object) -> str:
    """Return a value as a message shows it: short, and whatever its own text does.

    >>> spelled("x"), len(spelled("x" * 999))
    ("'x'", 83)
    """
    try:
        text = repr(value)
    except Exception:  # of a class of the caller's
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def make_rng(rng: Any) -> np.random.Generator:
    """Return the generator of an option `rng`; raise `MethodError` where it is no such option.

    >>> int(make_rng(0).integers(10))
    8
    """
    if rng is None or isinstance(rng, np.random.Generator | np.random.BitGenerator):
        return np.random.default_rng(rng)
    if isinstance(rng, bool) or not isinstance(rng, int | np.integer) or rng < 0:
        raise MethodError(f"rng={rng!r}: give a whole number of at least 0, a numpy.random.Generator or None.")
    return np.random.default_rng(int(rng))


def as_floats(values: Any, name: str, error: type[LrbtlError]) -> NDArray[np.float64]:
    """Return numbers as an array; raise the error where they are none.

    >>> as_floats([1, 2], "weights", WeightError)
    array([1., 2.])
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise TypeError("they are complex")
        if array.dtype.kind not in "biuf":
            array = np.array([float(value) for value in array.reshape(-1)]).reshape(array.shape)
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"{name}: numbers are needed ({reason}).", argument=name) from reason
