"""Which benchmarks to run next, and for which models: where one more score narrows the index most for its cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrbtl.boards.result_boards import index_weights
from lrbtl.data.labels import shown_context
from lrbtl.data.observations import Results
from lrbtl.entries.method import FactorRun
from lrbtl.errors import MethodError, PlanError
from lrbtl.inference.analysis import Analysis
from lrbtl.inference.joint import normal_quantile
from lrbtl.inference.targets import Weights
from lrbtl.tables import Printed
from lrbtl.typing import Bools, Floats

DRAW_STEP = 25  # draws between two that the plan averages over
UNKNOWN_SHARE = 0.5  # of deviations in residuals, where nothing separates them from noise


@dataclass(frozen=True, eq=False, repr=False)
class RunPlan(Printed):
    """Benchmarks to run next, most useful first.

    Attributes
    ----------
    models, contexts : tuples
        Model and benchmark of each run.
    cost : array
        Of each run.
    before, after : arrays
        Half widths of the interval of the model's index before and after the run, given the runs above it.
    level : float
    mode_names : tuple of str

    Examples
    --------
    >>> import lrbtl
    >>> results = lrbtl.Results.from_wide({
    ...     "model": ["x", "y", "z", "w"], "math": [70, 60, 50, 40], "code": [50, 41, 29, None]})
    >>> plan = lrbtl.plan(results, 1)
    >>> plan.models, plan.contexts, bool(plan.after[0] < plan.before[0])
    (('w',), ('code',), True)
    """

    models: tuple[Any, ...]
    contexts: tuple[Any, ...]
    cost: Floats
    before: Floats
    after: Floats
    level: float
    mode_names: tuple[str, ...]

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the runs as plain lists."""
        numbers = {name: getattr(self, name).tolist() for name in ("cost", "before", "after")}
        return {"model": list(self.models), "context": [shown_context(label) for label in self.contexts], **numbers}

    def heading(self) -> list[str]:
        """Return what is planned."""
        n = len(self.models)
        words = f"half widths of {100 * self.level:.4g}% intervals of each model's index, before and after the run"
        return [f"Plan of {n:,} run{'s' * (n != 1)} for {self.cost.sum():,.6g}", words]

    def _table(self) -> tuple[list[str], list[list[str]]]:
        columns = self.to_dict()
        names = ["model", " / ".join(self.mode_names), "cost", "before", "after"]
        rows = zip(columns["model"], columns["context"], self.cost, self.before, self.after, strict=True)
        return names, [[str(a), u, f"{c:g}", f"{x:.2f}", f"{y:.2f}"] for a, u, c, x, y in rows]


def plan_runs(
    analysis: Analysis,
    budget: float,
    *,
    goal: Any,
    context: Any,
    weights: Weights,
    cost: Mapping[Any, float] | None,
    level: float,
) -> RunPlan:
    """Return which scores to measure next; see `plan`."""
    reach = normal_quantile(level)
    results = analysis.battles
    if not (isinstance(analysis.run, FactorRun) and isinstance(results, Results)):
        raise MethodError(f"runs are planned by the factor model, not by method={analysis.method!r}.")
    given = None if isinstance(weights, str) and weights == "traffic" else weights
    row, _ = index_weights(results, given, context)
    planned = PlannedIndexErrors(analysis.run, row)
    price = _prices(results, cost)
    allowed = ~results.measured & _wanted(results, goal, planned)[:, None]
    runs: list[tuple[int, int, float, float]] = []
    left = budget
    while np.any(open_now := allowed & (price <= left)):
        gain = np.where(open_now, planned.gains() / price, -1.0)
        a, u = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[a, u] <= 0:
            break
        before = planned.spread(int(a))
        planned.add(int(a), int(u))
        runs.append((int(a), int(u), before, planned.spread(int(a))))
        allowed[a, u] = False
        left -= float(price[u])
    return RunPlan(
        tuple(results.models[a] for a, *_ in runs),
        tuple(results.context_label(u) for _, u, *_ in runs),
        np.array([price[u] for _, u, *_ in runs]),
        reach * np.array([before for *_, before, _ in runs]),
        reach * np.array([after for *_, after in runs]),
        level,
        results.mode_names,
    )


class PlannedIndexErrors:
    """Variances of models' indices, and what one more score of each entry would take off them.

    For a draw of loadings, the index of model i is a_i . f_i plus its deviations, a_i = sum_j w_j slope_ij l_j. A score
    on benchmark j with residual variance r takes (a' C l_j)^2 / (r + l_j' C l_j) off, C the covariance of f_i, and what
    it says of the deviation there.
    """

    B: Floats
    C: Floats
    deviation: Floats
    total: Floats
    weight: Floats
    a: Floats
    level_mean: Floats
    own: Floats

    def __init__(self, run: FactorRun, row: Floats) -> None:
        posterior, table = run.posterior, run.posterior.table
        draws, D = posterior.draws, table.shape[1]
        some = range(0, posterior.n_draws, DRAW_STEP)
        self.B = draws.loadings[some, :, 1:]  # (s, D, K)
        residual = draws.by_context[some][:, None, :] / draws.by_model[some][:, :, None]  # (s, d1, D)
        noise = np.zeros((len(some), 1, D))
        if draws.noise is not None:
            noise = draws.noise[some][:, None, :]
        elif table.items is not None:
            noise = np.broadcast_to(np.where(table.scales.bounded, 4.0, 1.0) / table.items, noise.shape)
        self.deviation = residual if posterior.knows_noise else UNKNOWN_SHARE * residual
        self.total = residual + noise
        middle = np.stack([posterior.shared(u).mean(axis=0) for u in range(D)], axis=1)
        slope = table.scales.slope(middle, np.arange(D))
        scale = np.where(table.scales.bounded & (np.count_nonzero(row) > 1), 100.0 / table.scales.width, 1.0)
        self.weight = row * scale * slope  # (d1, D)
        self.a = np.einsum("iu,suk->sik", self.weight, self.B)
        seen = run.data.measured
        gram = np.einsum("siu,suk,sul->sikl", seen / self.total, self.B, self.B)
        self.C = np.linalg.inv(gram + np.eye(self.B.shape[2]))
        self.level_mean = middle @ row
        left = np.where(seen, self.deviation * (self.total - self.deviation) / self.total, self.deviation)
        self.own = np.mean(self.weight**2 * left, axis=0)  # (d1, D)

    def gains(self) -> Floats:
        """Return by how much one more score of each entry lowers the variance of its model's index, (d1, D)."""
        Ca = np.einsum("sikl,sil->sik", self.C, self.a)
        along = np.einsum("sik,suk->siu", Ca, self.B)
        spread = np.einsum("suk,sikl,sul->siu", self.B, self.C, self.B)
        own = self.weight**2 * self.deviation**2 / self.total
        return np.asarray(np.mean(along**2 / (self.total + spread) + own, axis=0))

    def spread(self, model: int) -> float:
        """Return the standard deviation of a model's index."""
        a = self.a[:, model]
        shared = np.einsum("sk,skl,sl->s", a, self.C[:, model], a).mean()
        return float(np.sqrt(shared + self.own[model].sum()))

    def add(self, model: int, context: int) -> None:
        """Count one more score."""
        row, C, r = self.B[:, context], self.C[:, model], self.total[:, model, context]
        Cl = np.einsum("skl,sl->sk", C, row)
        self.C[:, model] = C - Cl[:, :, None] * Cl[:, None, :] / (r + np.einsum("sk,sk->s", row, Cl))[:, None, None]
        known = self.weight[model, context] ** 2 * np.mean(self.deviation[:, model, context] ** 2 / r)
        self.own[model, context] -= known


def _prices(results: Results, cost: Mapping[Any, float] | None) -> Floats:
    price = np.ones(results.n_contexts)
    for label, value in (cost or {}).items():
        if not value > 0:
            raise PlanError(f"the cost of {label!r} is {value!r}; give a positive number.")
        price[results.context_indices(label)] = float(value)
    return price


def _wanted(results: Results, goal: Any, planned: PlannedIndexErrors) -> Bools:
    """Return the models that a goal is about."""
    out = np.zeros(results.shape[0], dtype=np.bool_)
    if isinstance(goal, str) and goal == "gaps":
        return ~out
    if isinstance(goal, tuple) and len(goal) == 2 and goal[0] == "rank":
        out[results.model_index(goal[1])] = True
        return out
    if isinstance(goal, tuple) and len(goal) == 2 and goal[0] == "top" and isinstance(goal[1], int) and goal[1] > 0:
        out[np.argsort(-planned.level_mean, kind="stable")[: goal[1]]] = True
        return out
    raise PlanError(f"goal={goal!r} is none of 'gaps', ('top', 10) and ('rank', model), which results have.")
