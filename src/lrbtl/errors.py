"""Every error and warning that lrbtl raises, in one flat list, and the checks of options that all parts share.

A message says what is wrong, where, and what to do next.
"""

import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray


class LrbtlError(Exception):
    """Base of all errors raised by lrbtl."""


class LrbtlWarning(UserWarning):
    """Base of all warnings issued by lrbtl."""


class RankError(LrbtlError):
    """A rank that no score tensor of this shape has."""


class SamplingError(LrbtlError):
    """A sampling law that is no law, does not fit the battles, or cannot be estimated from them."""


class SeparationError(LrbtlError):
    """A gap between models that the battles leave infinite or unknown."""


class SeparationWarning(LrbtlWarning):
    """Scores that do not exist, because some models only win, only lose, or never meet."""


class SimulationError(LrbtlError):
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

    __str__ = Exception.__str__


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

    __str__ = Exception.__str__


class UnknownContextError(LrbtlError, KeyError):
    """A context level that the battles do not contain."""

    __str__ = Exception.__str__


class FoldError(LrbtlError, ValueError):
    """The battles cannot be split into that many folds."""


class SelfBattleWarning(LrbtlWarning):
    """Battles of a model against itself were dropped."""


class SingularInformationError(LrbtlError):
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

    __str__ = Exception.__str__


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


class UsageError(LrbtlError, ValueError):
    """Options of the command line that do not go together."""


class LinkError(LrbtlError, ValueError):
    """A link that is not known, or that does not fit the responses."""


class ObservationError(LrbtlError, ValueError):
    """Observed entries with indices, values or variances that cannot be used."""


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


class WeakSignalWarning(LrbtlWarning):
    """Scores whose weakest direction hardly exceeds the noise: intervals cover less than they say."""


# ------------------------------------------------------------------------------
# Warnings that point at the line of the user who caused them.
# ------------------------------------------------------------------------------


def warn_user(message: str, category: type[LrbtlWarning]) -> None:
    """Warn at the first line outside of lrbtl, whatever the way there."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "lrbtl" or module.startswith("lrbtl.")


# ------------------------------------------------------------------------------
# Options that are one of some words, a whole number or a source of randomness.
# ------------------------------------------------------------------------------


def check_choice(value: object, choices: tuple[str, ...], name: str, error: type[LrbtlError] = MethodError) -> None:
    """Raise where an option is none of the known ones."""
    if not isinstance(value, str) or value not in choices:
        raise error(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, choices))}.")


def check_whole(value: Any, name: str, least: int = 1, error: type[LrbtlError] = MethodError) -> None:
    """Raise `MethodError` unless an option is a whole number, of at least 1 by default."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise error(f"{name}={value!r}: give a whole number of at least {least}.")


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
    except (TypeError, ValueError) as reason:
        raise error(f"{name}: numbers are needed ({reason}).") from reason
