"""Diagnostics: is the fit in the regime where its intervals can be believed, and which method is safe."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh, onenormest

from lrbtl.data.battles import Battles, check_same_labels
from lrbtl.data.cells import component_members, weak_components
from lrbtl.data.frames import as_data
from lrbtl.data.labels import context_name
from lrbtl.data.observations import Data, Observations
from lrbtl.errors import SamplingError
from lrbtl.fitting.design import Design
from lrbtl.fitting.fit import Fit
from lrbtl.fitting.fit import fit as fit_scores
from lrbtl.fitting.local import Local
from lrbtl.fitting.signal import SIGNAL_FLOOR, THIN_CONTEXT, restricts, signal_ratio, thin_contexts, weak_advice
from lrbtl.fitting.solvers import Solver
from lrbtl.inference.targets import Target, resolve_targets, score
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import Tucker
from lrbtl.methods.one_step import ScoreView, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack, evaluate
from lrbtl.model.links import Link
from lrbtl.model.sampling import ProductSampling, Sampling, reference_probability
from lrbtl.typing import Floats, Longs

if TYPE_CHECKING:
    from lrbtl.data.frames import Frame

Level = Literal["ok", "warn"]
Check = tuple[bool, str]  # whether all is well, and the sentence

BERNSTEIN_CEILING = 3.0  # above it a few battles carry most of the correction
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
    notes : tuple of str
        What to know of how the battles were read.
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
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[tuple[Level, str]]:
        """Each diagnostic as a sentence, marked "ok" or "warn"."""
        return sentences(self)

    def to_dict(self) -> dict[str, object]:
        """Return the numbers as plain values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __str__(self) -> str:
        lines = [*self.notes, f"Verdict: {self.verdict}. {self.reason}", ""]
        return "\n".join(lines + [f"{'!' if level == 'warn' else ' '} {text}" for level, text in self.sentences])


def diagnose(
    battles: "Data | Frame",
    fit: Fit | None = None,
    targets: Target | Sequence[Target] | None = None,
    *,
    sampling: Sampling | None = None,
) -> Diagnosis:
    """Diagnose a fit: what its intervals rest on, in numbers and in words.

    Parameters
    ----------
    battles : Battles, Observations or data frame
        See `analyse`.
    fit : Fit, optional
        Of these battles, or of a group of models that battles link, such as that of a board. By default of all of
        them, with a rank chosen from the data.
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
    battles = as_data(battles)
    if fit is None:
        fit = fit_scores(battles, "auto")
    battles = _fitted_part(battles, fit.battles)
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
    unit, advice = battles.unit, None
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
        notes=battles.notes,
    )


def _fitted_part(battles: Data, fitted: Data) -> Data:
    """Return the battles that a fit was made of, where they are all those of its models and levels; else all."""
    inside = set(fitted.models) <= set(battles.models) and all(
        set(part) <= set(whole) for part, whole in zip(fitted.levels, battles.levels, strict=False)
    )
    if not (inside and isinstance(battles, Battles) and len(fitted.levels) == len(battles.levels)):
        return battles
    levels = dict(zip(battles.mode_names, fitted.levels, strict=True))
    part = battles.select(models=fitted.models, contexts=levels)
    return fitted if part.n_battles == fitted.n_battles else battles


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


# ------------------------------------------------------------------------------
# In words: the verdict and one sentence per number.
# ------------------------------------------------------------------------------


def verdict(
    n_groups: int,
    signal: float,
    bernstein: float,
    thin: tuple[object, ...] = (),
    *,
    advice: str | None = None,
    chosen: bool = False,
    asks_for_more: bool = False,
    unit: str = "battles",
) -> tuple[str, str]:
    """Return the verdict and its reason, which also tells of thin contexts.

    `advice` is what to do about a weak signal, None where it does not matter; `chosen`: by rank="auto", which may find
    that the data ask for more than they determine.
    """
    conclusion, reason = _conclude(n_groups, signal, bernstein, advice, chosen, unit)
    if asks_for_more and n_groups == 1:
        conclusion = f"too few {unit}"
        reason = f"A larger rank predicts better, but these {unit} do not determine it: fit each context by itself."
    return conclusion, f"{reason} Thin contexts: {_some(thin)} have wide intervals; do not use mle." if thin else reason


def _conclude(
    n_groups: int, signal: float, bernstein: float, advice: str | None, chosen: bool, unit: str
) -> tuple[str, str]:
    if n_groups > 1:
        return (
            "too few battles",
            "Some models never meet the others, not even through a chain: make one board per group.",
        )
    strength = f"The weakest component is {signal:.1f} times the noise"
    is_weak = signal < SIGNAL_FLOOR and advice is not None
    if is_weak and not chosen:
        return f"too few {unit}", f"{strength}; below {SIGNAL_FLOOR} {advice}."
    if bernstein > BERNSTEIN_CEILING:
        return "prefer whitened", (
            f"A few {unit} carry most of the correction: a bound that allows for them is {bernstein:.1f} times the "
            f"normal one, more than {BERNSTEIN_CEILING:.0f}. The efficient direction is then not stable; the whitened "
            "method does not need it."
        )
    if is_weak:
        return "efficient, with care", f"{strength}, below {SIGNAL_FLOOR}; {advice}."
    return "efficient is safe", f"{strength} and no {unit.removesuffix('s')} dominates the correction."


def sentences(d: Diagnosis) -> list[tuple[Level, str]]:
    """Return each diagnostic as a sentence, marked "ok" or "warn"."""
    checks = [_signal(d), *([] if d.unit == "observations" else _battles(d)), *_counts(d), *_numbers(d)]
    return [("ok" if good else "warn", text) for good, text in checks]


def _signal(d: Diagnosis) -> Check:
    text = f"Signal: the weakest component of rank {d.rank} is {d.signal:.2f} times the noise"
    if d.signal < SIGNAL_FLOOR and d.advice is None:
        return True, f"{text}, which matters not: this rank restricts nothing."
    return d.signal >= SIGNAL_FLOOR, f"{text} (wanted: at least {SIGNAL_FLOOR})."


def _battles(d: Diagnosis) -> list[Check]:
    """Return what can be said of battles only: who meets whom, and where."""
    checks = [
        (
            len(d.groups) == 1,
            f"Connection: the models form {len(d.groups)} connected group{'s' * (len(d.groups) > 1)}.",
        )
    ]
    if d.split_contexts:
        text = f"{_some(d.split_contexts)} do not connect their models by themselves; low rank borrows from the others."
        checks.append((False, f"Contexts: {text}"))
    if d.thin_contexts:
        text = f"{_some(d.thin_contexts)} have fewer than {THIN_CONTEXT} battles; mle is not safe in such."
        checks.append((False, f"Thin contexts: {text}"))
    return checks


def _counts(d: Diagnosis) -> list[Check]:
    kinds = ("model", "context") if d.unit == "battles" else ("row", "column")
    checks = []
    for kind, (least, median, most) in zip(kinds, (d.battles_per_model, d.battles_per_context), strict=True):
        good = kind != "model" or least >= 30
        checks.append((good, f"{d.unit.capitalize()} per {kind}: {least:,} to {most:,}, median {median:,}."))
    return checks


def _numbers(d: Diagnosis) -> list[Check]:
    carriers = "models or levels" if d.unit == "battles" else "rows or levels"
    return [
        (
            max(d.incoherence) < 10,
            f"Incoherence: {', '.join(f'{x:.1f}' for x in d.incoherence)} per mode; 1 is even, large means that a few "
            f"{carriers} carry a component.",
        ),
        (
            d.condition < 20,
            f"Conditioning: singular values from {d.smallest_singular:.3g} to {d.largest_singular:.3g}, "
            f"ratio {d.condition:.1f}.",
        ),
        (
            d.information_min > 0.01,
            f"Information: the least informed direction has {d.information_min:.3f} of the unit of uniform sampling, "
            f"the best {d.information_max:.3f}.",
        ),
        (
            True,
            f"C_A: {d.C_A:.1f}; it multiplies the second-order error of the efficient method and is not needed by the "
            "whitened one.",
        ),
        (
            not d.overlap_min < 0.02,
            f"Overlap: the {d.unit} seen are {d.overlap_min:.2f} to {d.overlap_max:.1f} times as likely as under "
            "uniform sampling.",
        ),
        (
            d.alignment > 0.1,
            f"Alignment: the targets' gradients have at least {d.alignment:.2f} of the usual share in the tangent "
            "space.",
        ),
        (
            d.bernstein < BERNSTEIN_CEILING,
            f"Bernstein: a bound for any number of {d.unit} is {d.bernstein:.2f} times the normal one; far above 1.4 a "
            f"few {d.unit} dominate.",
        ),
        (
            d.berry_esseen < 0.3,
            f"Normality: the error of the normal approximation is of order {d.berry_esseen:.3f}.",
        ),
    ]


def _some(names: Sequence[object]) -> str:
    shown = ", ".join(map(context_name, names[:3])) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} ({shown})"
