"""`forecast`: the scores that models would get on benchmarks they were not run on, with prediction intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np

from lrbtl.boards.components import prepared_data
from lrbtl.data.frames import Frame, as_results
from lrbtl.data.labels import context_name, is_hashable
from lrbtl.data.observations import Results
from lrbtl.entries.method import FactorRun
from lrbtl.entries.posterior import central, quantiles
from lrbtl.errors import MethodError, UnknownModelError, spelled
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.joint import normal_quantile
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.tables import ELLIPSIS, Printed, decimals_for, format_intervals, format_numbers, shown_rows
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats, Longs

ROWS_SHOWN = 40
NUMBERS = ("estimate", "lower", "upper", "latent_lower", "latent_upper")
MOST_NAMED = 3  # measured scores that a forecast names
LEAST_SHARE = 0.05  # of the largest weight, below which a score is not named


@dataclass(frozen=True, eq=False, repr=False)
class Forecast(Printed):
    """Forecasts of scores, one row each.

    Attributes
    ----------
    models : tuple
    contexts : tuple of tuples
        Labels of the benchmark, and of further modes.
    mode_names : tuple of str
    estimate : array
        Median of the score that one would measure, on the benchmark's own scale.
    lower, upper : arrays
        Prediction interval of that score.
    latent_lower, latent_upper : arrays
        Interval of the latent score, without the noise of a measurement.
    rests_on : tuple of tuples
        Benchmarks on which the model was measured that move the forecast most, first the one that does most. Empty for
        a model without scores, whose forecast is that of an average model.
    level : float
    notes : tuple of str

    Examples
    --------
    >>> import lrbtl
    >>> results = lrbtl.Results.from_wide({
    ...     "model": ["x", "y", "z", "w"], "math": [70, 60, 50, 40], "code": [50, 41, 29, None]})
    >>> found = lrbtl.forecast(results)
    >>> found.models, found.contexts, bool(found.lower[0] < 25 < found.upper[0])
    (('w',), (('code',),), True)
    """

    models: tuple[Any, ...]
    contexts: tuple[tuple[Any, ...], ...]
    mode_names: tuple[str, ...]
    estimate: Floats
    lower: Floats
    upper: Floats
    latent_lower: Floats
    latent_upper: Floats
    rests_on: tuple[tuple[str, ...], ...]
    level: float
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.models)

    def of_model(self, model: Any) -> Forecast:
        """Return the forecasts of one model."""
        if not is_hashable(model):
            raise UnknownModelError(f"model={spelled(model)} is not a label: give that of a model.")
        places: dict[Any, list[int]] = {}
        for k, name in enumerate(self.models):
            places.setdefault(name, []).append(k)
        rows = np.array(places.get(model, []), dtype=np.int64)  # none where all of its scores are measured
        numbers: dict[str, Any] = {name: getattr(self, name)[rows] for name in NUMBERS}
        lists: dict[str, Any] = {
            name: tuple(getattr(self, name)[k] for k in rows) for name in ("models", "contexts", "rests_on")
        }
        return replace(self, **numbers, **lists)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return model, context, estimate, lower, upper and what each rests on as plain lists."""
        modes = {name: [labels[k] for labels in self.contexts] for k, name in enumerate(self.mode_names)}
        numbers = {name: getattr(self, name).tolist() for name in ("estimate", "lower", "upper")}
        return {"model": list(self.models), **modes, **numbers, "rests_on": [", ".join(some) for some in self.rests_on]}

    def heading(self) -> list[str]:
        """Return what is forecast, and notes."""
        n = len(self)
        return [f"Forecast of {n:,} score{'s' * (n != 1)}; {100 * self.level:.4g}% prediction intervals", *self.notes]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        head, tail = shown_rows(len(self), ROWS_SHOWN)
        rows = [self._row(k) for k in head]
        if tail:
            rows += [[ELLIPSIS] * (4 + len(self.mode_names)), *(self._row(k) for k in tail)]
        return ["model", *self.mode_names, "estimate", "interval", "rests on"], rows

    def _row(self, k: int) -> list[str]:
        decimals = decimals_for(np.array([self.upper[k] - self.lower[k]]), 2, 4)
        (number,) = format_numbers(self.estimate[k : k + 1], decimals)
        (interval,) = format_intervals(self.lower[k : k + 1], self.upper[k : k + 1], decimals)
        return [str(self.models[k]), *map(str, self.contexts[k]), number, interval, ", ".join(self.rests_on[k])]


@named_options
@one_blas_thread
def forecast(
    results: Results | Analysis | Frame,
    *,
    model: Any = None,
    context: Any = None,
    level: float = 0.95,
    **options: Unpack[RunOptions],
) -> Forecast:
    """Return forecasts of scores that were not measured, with prediction intervals.

    Parameters
    ----------
    results : Results, Analysis of them, or data frame
        Of a frame the columns are guessed from common names; `Results.from_frame` names them.
    model : label or list of labels, optional
        By default all models.
    context : label or list of labels, optional
        Benchmarks; by default all. A score that is named by model and context is forecast even where it was measured:
        then it is that of another measurement.
    level : float
        Of the prediction intervals.
    **options
        rng, progress: see `analyse`.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> import lrbtl
    >>> results = lrbtl.Results.from_wide({
    ...     "model": ["x", "y", "z", "w"], "math": [70, 60, 50, 40], "code": [50, 41, 29, None]})
    >>> list(lrbtl.forecast(results, model="w").to_dict())
    ['model', 'benchmark', 'estimate', 'lower', 'upper', 'rests_on']
    """
    normal_quantile(level)
    data, options, made = prepared_data(results, options, as_results)
    analysis = analyse(data, **options) if made is None else made
    run = analysis.run
    if not (isinstance(run, FactorRun) and isinstance(data, Results)):
        raise MethodError(f"forecasts are made by the factor model of results, not by method={analysis.method!r}.")
    rows = np.arange(data.shape[0]) if model is None else np.array([data.model_index(each) for each in _listed(model)])
    every = np.arange(data.n_contexts)
    columns = every if context is None else np.concatenate([data.context_indices(each) for each in _listed(context)])
    wanted = np.zeros((data.shape[0], data.n_contexts), dtype=bool)
    wanted[np.ix_(rows, columns)] = True
    if model is None or context is None:
        wanted &= ~data.measured
    at, where = np.nonzero(wanted)
    found = {int(u): _limits(run, int(u), level) for u in np.unique(where)}
    table = np.array([found[int(u)][:, a] for a, u in zip(at, where, strict=True)]).reshape(-1, 5).T
    estimate, lower, upper, latent_lower, latent_upper = table
    return Forecast(
        tuple(data.models[a] for a in at),
        tuple(_labels(data, int(u)) for u in where),
        data.mode_names,
        estimate,
        lower,
        upper,
        latent_lower,
        latent_upper,
        _rests_on(run, data, at, where),
        level,
        analysis.provenance.notes,
    )


def _limits(run: FactorRun, context: int, level: float) -> Floats:
    """Return median and limits of the scores of all models that one would measure, and of the latent ones, (5, d1)."""
    latent, measured = run.posterior.both(context)
    return np.concatenate([quantiles(measured, [0.5]), central(measured, level), central(latent, level)])


def _rests_on(run: FactorRun, data: Results, models: Longs, contexts: Longs) -> tuple[tuple[str, ...], ...]:
    """Return the measured benchmarks that move each forecast most."""
    out: list[tuple[str, ...]] = []
    for a in np.unique(models):
        at, weights = run.support(int(a))
        names = [context_name(data.context_label(int(u))) for u in at]
        for row in np.abs(weights[contexts[models == a]]):
            order = np.argsort(-row, kind="stable")[:MOST_NAMED]
            out.append(tuple(names[k] for k in order if row[k] >= LEAST_SHARE * row.max()))
    return tuple(out)


def _labels(data: Results, context: int) -> tuple[Any, ...]:
    label = data.context_label(context)
    return label if isinstance(label, tuple) else (label,)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | np.ndarray) else [given]
