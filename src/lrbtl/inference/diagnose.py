"""Diagnostics: is the fit in the regime where its intervals can be believed, and which method is safe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import prod

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh, onenormest

from lrbtl.data.battles import check_same_labels
from lrbtl.data.graph import component_members, weak_components
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import SamplingError
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import Fit
from lrbtl.fitting.fit import fit as fit_scores
from lrbtl.fitting.local import Local
from lrbtl.fitting.signal import SIGNAL_FLOOR, restricts, signal_ratio, thin_contexts, weak_advice
from lrbtl.fitting.solvers import Solver
from lrbtl.inference.diagnosis_text import Level, sentences, verdict
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.one_step import ScoreView, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack, Target, evaluate, resolve_targets, score
from lrbtl.model.links import Link
from lrbtl.model.sampling import ProductSampling, Sampling, reference_probability
from lrbtl.typing import Floats, Longs

EXACT_NORM = 1500  # scores up to which the norm behind C_A is exact
CERTAINTY = 0.05  # probability that the Bernstein bound leaves out


@dataclass(frozen=True)
class Diagnosis:
    """Numbers behind the verdict; `sentences` says them in words.

    Attributes
    ----------
    n_battles, n_cells : int
    groups : tuple of tuples
        Models of each connected group of the comparison graph, largest first.
    split_contexts : tuple
        Contexts whose own comparison graph is not connected.
    thin_contexts : tuple
        Contexts with fewer than 100 battles.
    battles_per_model, battles_per_context : (smallest, median, largest)
    signal : float
        Smallest singular value over the size of noise; below 1.5 intervals cover less than they say.
    incoherence : tuple
        d_k / r_k times the largest squared row of each orthonormal factor; 1 is perfectly even.
    smallest_singular, largest_singular, condition : float
        lambda_min, lambda_max over all unfoldings and their ratio kappa.
    information_min, information_max : float
        Extreme eigenvalues of A = P_T G P_T times d_eff; at most 1/4 under uniform sampling.
    C_A : float
        Norm of A^-1 from entries to entries over d_eff [Li26, eq. CA_def_main].
    overlap_min, overlap_max : float or nan
        Smallest and largest p / q of the observed battles under the product law.
    alignment : float
        Smallest alignment of the targets with the tangent space [Li26, eq. alignment], 1 or more is good.
    influence_variance, influence_max : float
        Variance and largest size of n times one battle's influence on the worst target.
    bernstein : float
        Bound of that target's correction term that holds with probability 0.95, over its normal counterpart 1.96 se.
    berry_esseen : float
        sqrt(largest mode / n), the order of the error of the normal approximation.
    verdict : "efficient is safe", "efficient, with care", "prefer whitened" or "too few battles"
        "With care" is said of a rank that rank="auto" chose although its weakest component is near the noise.
    reason : str
    rank : tuple
    advice : str or None
        What to do about a weak signal; None where the rank restricts nothing.
    unit : "battles" or "observations"
    """

    n_battles: int
    n_cells: int
    groups: tuple[tuple[object, ...], ...]
    split_contexts: tuple[object, ...]
    thin_contexts: tuple[object, ...]
    battles_per_model: tuple[int, int, int]
    battles_per_context: tuple[int, int, int]
    signal: float
    incoherence: tuple[float, ...]
    smallest_singular: float
    largest_singular: float
    condition: float
    information_min: float
    information_max: float
    C_A: float
    overlap_min: float
    overlap_max: float
    alignment: float
    influence_variance: float
    influence_max: float
    bernstein: float
    berry_esseen: float
    verdict: str
    reason: str
    rank: tuple[int, ...]
    advice: str | None
    unit: str = "battles"

    @property
    def sentences(self) -> list[tuple[Level, str]]:
        """Each diagnostic as a sentence, marked "ok" or "warn"."""
        return sentences(self)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __str__(self) -> str:
        lines = [f"Verdict: {self.verdict}. {self.reason}", ""]
        return "\n".join(lines + [f"{'!' if level == 'warn' else ' '} {text}" for level, text in self.sentences])


def diagnose(
    battles: Data,
    fit: Fit | None = None,
    targets: Target | Sequence[Target] | None = None,
    *,
    sampling: Sampling | None = None,
) -> Diagnosis:
    """Diagnose a fit: what its intervals rest on, in numbers and in words.

    Parameters
    ----------
    battles : Battles or Observations
    fit : Fit, optional
        Of battles with the same models and levels. By default of these, with a rank chosen from the data.
    targets : Target or list, optional
        For alignment and the Bernstein bound; by default the mean score of every model.
    sampling : Sampling, optional
        Law of the battles, for the overlap; by default the estimated product law.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((15, 6), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 20_000, rng=1)
    >>> diagnosis = lrbtl.diagnose(battles, lrbtl.fit(battles, 2))
    >>> diagnosis.verdict
    'efficient is safe'
    >>> lrbtl.diagnose(battles).rank
    (2, 2)
    """
    if fit is None:
        fit = fit_scores(battles, "auto")
    check_same_labels(battles, fit.battles)
    if targets is None:
        targets = [score(i) for i in range(battles.shape[0])]
    design = Design.of(battles, fit.n_threads, fit.link)
    here = design.with_count(design.count / battles.n_battles).at(fit.point)
    space, solver = here.space, here.solver()
    resolved = resolve_targets(battles, [targets] if isinstance(targets, Target) else targets)
    _, gradients = evaluate_targets(space, Stack.of(resolved), battles.shape, fit.link)
    low, high = _information_range(here, solver)
    variance, largest, bernstein = _influence(here, solver, gradients, battles.n_battles)
    overlap = _overlap(battles, sampling)
    singular = np.concatenate(space.point.singular_values)
    contexts, groups = battles.context_counts, _groups(battles)
    signal = signal_ratio(fit.point, battles.n_battles, design.noise)
    thin = () if isinstance(battles, Observations) else thin_contexts(battles)
    unit, advice = battles.say("battles"), None
    if restricts(fit.point, centred=design.centred):
        advice = weak_advice(fit.point, battles.n_battles, design.noise, fit.rank_chosen, unit)
    conclusion, reason = verdict(
        len(groups), signal, bernstein, thin,
        advice=advice, chosen=fit.rank_chosen, asks_for_more=fit.asks_for_more, unit=unit,
    )  # fmt: skip
    return Diagnosis(
        n_battles=battles.n_battles,
        n_cells=battles.n_cells,
        groups=tuple(tuple(battles.models[i] for i in group) for group in groups),
        split_contexts=_split_contexts(battles),
        thin_contexts=thin,
        battles_per_model=_spread(battles.model_counts),
        battles_per_context=_spread(contexts),
        signal=signal,
        incoherence=tuple(incoherence(fit.point)),
        smallest_singular=float(singular.min()),
        largest_singular=float(singular.max()),
        condition=float(singular.max() / max(singular.min(), 1e-300)),
        information_min=low * design.d_eff,
        information_max=high * design.d_eff,
        C_A=_inverse_norm(space, solver) / design.d_eff,
        overlap_min=overlap[0],
        overlap_max=overlap[1],
        alignment=_alignment(space, resolved, gradients, battles.shape, fit.link),
        influence_variance=variance,
        influence_max=largest,
        bernstein=bernstein,
        berry_esseen=float(np.sqrt(max(battles.shape) / battles.n_battles)),
        verdict=conclusion,
        reason=reason,
        rank=fit.rank,
        advice=advice if signal < SIGNAL_FLOOR else None,
        unit=unit,
    )


def incoherence(point: Tucker) -> list[float]:
    """Return mu_k = d_k / r_k max_a ||e_a^T U_k||^2 of each mode [Li26, sec. model-setting]."""
    return [float(len(U) / U.shape[1] * np.square(U).sum(axis=1).max()) for U in point.factors]


def _tensor_operator(space: TangentSpace, apply: Callable[[Floats], Floats]) -> LinearOperator:
    """Return J apply J^T Q1 as an operator on flattened tensors."""
    d1, D = len(space.U), len(space.V)

    def matvec(z: Floats) -> Floats:
        return space.dense(apply(space.pull_dense(z.reshape(d1, D)))).reshape(-1)

    return LinearOperator((d1 * D, d1 * D), matvec=matvec, rmatvec=matvec, dtype=np.float64)


def _information_range(here: Local, solver: Solver) -> tuple[float, float]:
    """Return the extreme eigenvalues of A = P_T G P_T on the tangent space."""
    space, weight = here.space, here.design.count * here.terms.fisher

    def restricted(x: Floats) -> Floats:
        inside = space.solve_isotropic(x)
        return space.solve_isotropic(here.design.gram_apply(space, weight, inside))

    start = np.random.default_rng(0).normal(size=space.U.shape[0] * len(space.V))
    options = {"k": 1, "which": "LA", "return_eigenvectors": False, "v0": start, "tol": 1e-3}
    if space.dimension < 2:
        inverse = _tensor_operator(space, solver.solve)
        value = float(
            np.linalg.norm(inverse.matvec(start)) / np.linalg.norm(space.project(start.reshape(space.point.shape)))
        )
        return 1 / value, 1 / value
    largest_inverse = float(eigsh(_tensor_operator(space, solver.solve), **options)[0])
    return 1.0 / largest_inverse, float(eigsh(_tensor_operator(space, restricted), **options)[0])


def _inverse_norm(space: TangentSpace, solver: Solver) -> float:
    """Return the norm of A^-1 from entries to entries: its largest absolute row sum, estimated where it is large."""
    operator = _tensor_operator(space, solver.solve)
    size = operator.shape[0]
    if size <= EXACT_NORM:
        columns = np.stack([operator.matvec(column) for column in np.eye(size)])
        return float(np.abs(columns).sum(axis=1).max())
    return float(onenormest(operator))


def _influence(here: Local, solver: Solver, gradients: Floats, n: int) -> tuple[float, float, float]:
    """Return variance, largest influence and Bernstein over normal bound of the worst target."""
    worst = (0.0, 0.0, 0.0)
    for direction in solver.solve(gradients).T:
        variance, largest = here.influence(np.ascontiguousarray(direction))
        log = np.log(2 / CERTAINTY)
        bound = np.sqrt(2 * variance * log / n) + largest * log / (3 * n)
        ratio = bound / (1.959964 * np.sqrt(variance / n)) if variance > 0 else np.inf
        if ratio > worst[2]:
            worst = (variance, largest, float(ratio))
    return worst


def _alignment(
    space: TangentSpace, targets: Sequence[Resolved], gradients: Floats, shape: tuple[int, ...], link: Link
) -> float:
    """Return the smallest ||P_T Gamma|| / ||Gamma|| sqrt(prod d / max d) [Li26, eq. alignment]."""
    _, sparse = evaluate(targets, ScoreView(space, shape, link))
    inside = np.einsum("im,im->m", gradients, space.solve_isotropic(gradients))
    d1, D = shape[0], len(space.V)
    entries = sparse.by_context(d1, D)
    whole = np.asarray(entries.multiply(entries).sum(axis=1)).reshape(-1)
    if space.centred:
        sums = entries @ np.repeat(np.eye(D), d1, axis=0)
        whole = whole - np.square(sums).sum(axis=1) / d1
    ratio = np.sqrt(inside / np.maximum(whole, 1e-300))
    return float(ratio.min() * np.sqrt(prod(shape) / max(shape)))


def _overlap(battles: Data, sampling: Sampling | None) -> tuple[float, float]:
    """Return the extreme p / q over observed battles; nan where no product law can be estimated."""
    try:
        law = ProductSampling.estimate(battles) if sampling is None else sampling
        reference = reference_probability(battles.shape, entries=isinstance(battles, Observations))
        ratio = law.probability(battles.cells, battles.shape) / reference
    except SamplingError:
        return float("nan"), float("nan")
    return float(ratio.min()), float(ratio.max())


def _groups(battles: Data) -> list[Longs]:
    """Return the models of each connected group; entries need no chain of comparisons."""
    if isinstance(battles, Observations):
        return [np.arange(battles.shape[0])]
    return component_members(weak_components(battles.cells.a, battles.cells.b, battles.shape[0])[0])


def _split_contexts(battles: Data) -> tuple[object, ...]:
    if isinstance(battles, Observations):
        return ()
    cells = battles.cells
    labels = weak_components(cells.a, cells.b, battles.shape[0], context=cells.context, n_contexts=battles.n_contexts)
    return tuple(battles.context_label(int(u)) for u in np.flatnonzero(np.any(labels != labels[:, :1], axis=1)))


def _spread(counts: Longs) -> tuple[int, int, int]:
    return int(counts.min()), int(np.median(counts)), int(counts.max())
