"""A diagnosis in words: verdicts, and one sentence per number."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from lrbtl.data.labels import context_name, some_of
from lrbtl.fitting.signal import SIGNAL_FLOOR, THIN_CONTEXT

if TYPE_CHECKING:
    from lrbtl.inference.diagnose import Diagnosis, FitDiagnosis

Check = tuple[bool, str]  # whether all is well, and the sentence

BERNSTEIN_CEILING = 3.0  # above it a few battles carry most of the correction
# C_A over its value at even information, above which the efficient direction is not trusted: simulations at up to 18
# had coverage .95 and a smaller error than whitened, one with a direction that no vote informed was at 170,000
C_A_CEILING = 50.0
COVERED, COVERED_AT_BEST = 0.8, 0.9  # expected coverage of 95% intervals below which a low-rank fit is not safe
NEGLIGIBLE = 0.01  # share of deviations below which a rank counts as right


def board_verdict(d: Diagnosis) -> tuple[str, str]:
    """Return the verdict on boards of the default method, and its reason."""
    if len(d.groups) > 1:
        return "separate boards", (
            f"No chain of votes links {len(d.groups)} groups of models: each has a board of its own. Let models of "
            "different groups meet if they should be compared."
        )
    if d.calibration is not None and d.calibration.off.any():
        return "publish with care", (
            "Votes differ from what the scores predict at some gaps: publish scores and ranks, but no win rates "
            "between models far apart."
        )
    if d.calibration is None:
        return "ready to publish", "Votes link all models. Predicted win rates are not checked by this method."
    return "ready to publish", (
        "Votes link all models and agree with what the scores predict."
        if len(d.calibration.votes)
        else "Votes link all models. They are too few for a check of predicted win rates."
    )


def fit_verdict(d: FitDiagnosis, *, chosen: bool = False, asks_for_more: bool = False) -> tuple[str, str]:
    """Return the verdict on a low-rank fit and its reason, which also covers thin contexts.

    `chosen`: its rank is that of rank="auto", which may find that the data ask for more than they determine.
    """
    verdict, reason = _conclude(d, chosen)
    if len(d.groups) == 1 and not _is_covered(d) and not isnan(d.coverage):
        verdict = "prefer hierarchical"
        reason = (
            f"Scores are not of this rank: intervals of 95% can be expected to hold for {d.coverage:.0%} of them. "
            "Use method='hierarchical', which allows for what the rank leaves out."
        )
    elif asks_for_more and len(d.groups) == 1:
        verdict = f"too few {d.unit}"
        reason = f"A larger rank predicts better, but these {d.unit} do not determine it: use method='hierarchical'."
    thin = d.thin_contexts
    return verdict, f"{reason} Thin contexts: {_some(thin)} have wide intervals; do not use mle." if thin else reason


def _is_covered(d: FitDiagnosis) -> bool:
    """Whether the rank leaves next to nothing out, or intervals can be expected to cover all the same."""
    right = d.share < NEGLIGIBLE and all(r >= least for r, least in zip(d.rank, min(d.ranks), strict=True))
    return right or (d.coverage >= COVERED and d.coverage_at_best >= COVERED_AT_BEST)


def _conclude(d: FitDiagnosis, chosen: bool) -> tuple[str, str]:
    if len(d.groups) > 1:
        return (
            "too few battles",
            "Some models never meet the others, not even through a chain: make one board per group.",
        )
    signal = f"The weakest component is {d.signal:.1f} times the noise"
    if d.advice is not None and not chosen:
        return f"too few {d.unit}", f"{signal}; below {SIGNAL_FLOOR} {d.advice}."
    if d.bernstein > BERNSTEIN_CEILING or C_A_CEILING * d.C_A_even < d.C_A:
        return _unstable(d)
    if d.advice is not None:
        return "efficient, with care", f"{signal}, below {SIGNAL_FLOOR}; {d.advice}."
    return "efficient is safe", f"{signal} and no {d.unit.removesuffix('s')} dominates the correction."


def _unstable(d: FitDiagnosis) -> tuple[str, str]:
    """Return the verdict where the efficient direction is not stable: whitened, or neither."""
    if d.bernstein > BERNSTEIN_CEILING:
        why = (
            f"A few {d.unit} carry most of the correction: a bound that allows for them is {d.bernstein:.1f} times the "
            f"normal one, more than {BERNSTEIN_CEILING:.0f}. The efficient direction is then not stable"
        )
    else:
        why = (
            f"C_A is {d.C_A / d.C_A_even:,.0f} times what it is at even information, more than {C_A_CEILING:.0f}: some "
            "direction has next to no information, and the efficient direction is not stable"
        )
    if d.whitened_bernstein <= BERNSTEIN_CEILING or d.unit == "observations":
        return "prefer whitened", f"{why}; the whitened method does not need it."
    return "prefer hierarchical", f"{why}, nor is the whitened one, which weights rare {d.unit} up."


# ------------------------------------------------------------------------------
# Sentences.
# ------------------------------------------------------------------------------


def about_sharing(d: Diagnosis) -> list[Check]:
    """Return what contexts share, ranks, and outliers."""
    checks: list[Check] = []
    if not isnan(d.share):
        checks.append((True, f"Sharing: {d.sharing}."))
    if d.ranks:
        *others, last = (" × ".join(map(str, rank)) for rank in d.ranks)
        checks.append((True, f"Rank: averaged over {', '.join(others)} and {last}." if others else f"Rank: {last}."))
    if d.outliers:
        named = [f"{model} in {context_name(context)} ({points:+.0f})" for model, context, points in d.outliers[:3]]
        more = f", and {len(d.outliers) - 3} more" if len(d.outliers) > 3 else ""
        checks.append((True, f"Outliers among a model's scores: {', '.join(named)}{more}."))
    for name, levels, most in d.unshared:
        text = f"{name} has {levels:,} levels, too many to learn what each of them does to a model wherever it occurs"
        remedy = f"join them to {most:,} or fewer, or" if most > 1 else "with so many models"
        checks.append((False, f"Many levels: {text}; {remedy} intervals on boards of one may be too narrow."))
    return checks


def about_clusters(d: Diagnosis) -> list[Check]:
    """Return sentences on the design effects of clusters."""
    return [
        (True, f"Clusters: votes by {name} are correlated, design effect {effect:.1f}; standard errors allow for it.")
        if effect > 1.05
        else (True, f"Clusters: votes by {name} show no correlation.")
        for name, effect in d.design_effects
    ]


def about_votes(d: Diagnosis) -> list[Check]:
    """Return who meets whom, where, and how often."""
    n = len(d.groups)
    linked = "votes link all models" if n == 1 else f"no votes link {n} groups of models; the rest is on the largest"
    checks = [(n == 1, f"Connection: {linked}."), (True, f"Votes per model: {_range(d.battles_per_model)}.")]
    if d.sparse_models:
        checks.append((True, f"Few votes: {_some(d.sparse_models, 'model')} fewer than 30: without a rank on boards."))
    if d.newcomers:
        text = f"{_some(d.newcomers, 'model')} votes in one category only; elsewhere the score rests on other models."
        checks.append((True, f"Newcomers: {text}"))
    if d.battles_per_context[2] < d.n_battles:
        checks.append((True, f"Votes per category: {_range(d.battles_per_context)}."))
    if d.thin_contexts:
        few = f"{_some(d.thin_contexts, 'category')} fewer than {THIN_CONTEXT} votes"
        checks.append((False, f"Thin categories: {few}; scores there rest on the others: collect more."))
    if d.split_contexts:
        text = (
            f"{_some(d.split_contexts, 'category')} groups of models that never meet there; other categories link them."
        )
        checks.append((True, f"Split categories: {text}"))
    return checks


def about_calibration(d: Diagnosis) -> list[Check]:
    """Return whether votes agree with predictions, and which law of votes predicts better where they do not."""
    if d.calibration is None or not d.calibration.sentence:
        return []
    good = not d.calibration.off.any()
    checks = [(good, f"Calibration: {d.calibration.sentence}")]
    if d.links is not None:
        own = d.calibration.link
        better = d.links.better_than(own)
        gain = 1e3 * float(d.links.deficit[d.links.links.index(own)])
        text = (
            f"no other link predicts votes better than {own}."
            if better is None
            else f"{better} predicts votes better than {own}, by {gain:.1f} mnats each: use link={better!r}."
        )
        checks.append((better is None, f"Links: {text}"))
    return checks


def about_fit(d: FitDiagnosis) -> list[Check]:
    """Return the signal of a low-rank fit, and what its intervals can be expected to cover."""
    text = f"Signal: the weakest component of rank {d.rank} is {d.signal:.2f} times the noise"
    weak = d.signal < SIGNAL_FLOOR
    checks = [(not weak, f"{text} (wanted: at least {SIGNAL_FLOOR}).")]
    if weak and d.advice is None:
        checks = [(True, f"{text}, which does not matter: this rank restricts nothing.")]
    if isnan(d.coverage):
        return checks
    words = f"95% intervals can be expected to cover {d.coverage:.0%} of the scores, {d.coverage_at_best:.0%} at best"
    return [*checks, (_is_covered(d), f"Rank: by the hierarchical analysis {words}."), *about_sharing(d)[:1]]


def about_regime(d: FitDiagnosis) -> list[Check]:
    """Return the numbers that the theory of low-rank fits asks for."""
    checks: list[Check] = []
    if d.unit == "observations":
        for kind, each in (("row", d.battles_per_model), ("column", d.battles_per_context)):
            checks.append((kind != "row" or each[0] >= 30, f"Observations per {kind}: {_range(each)}."))
    carriers = "models or levels" if d.unit == "battles" else "rows or levels"
    return [
        *checks,
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
            C_A_CEILING * d.C_A_even >= d.C_A,
            f"C_A: {d.C_A:.1f}, {d.C_A / d.C_A_even:.1f} times its value at even information; it multiplies the "
            f"second-order error of the efficient method (CLT condition {d.clt_condition:.2g}) and is not needed by "
            "the whitened one.",
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
        (d.berry_esseen < 0.3, f"Normality: the error of the normal approximation is of order {d.berry_esseen:.3f}."),
    ]


def _range(spread: tuple[int, int, int]) -> str:
    least, median, most = spread
    return f"{least:,} to {most:,}, median {median:,}"


def _some(names: Sequence[object], kind: str | None = None) -> str:
    """Return how many there are and the first of them, with a verb where their kind is given.

    >>> _some(["x", "y"]), _some(["law"], "category")
    ('2 (x, y)', '1 category (law) has')
    """
    shown = some_of([*map(context_name, names)], 3)
    if kind is None:
        return f"{len(names)} ({shown})"
    one = len(names) == 1
    many = f"{kind.removesuffix('y')}ies" if kind.endswith("y") else f"{kind}s"
    return f"{len(names)} {kind if one else many} ({shown}) {'has' if one else 'have'}"
