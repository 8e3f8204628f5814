"""What a diagnosis says, in words: the verdict and one sentence per number."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from lrbtl.data.labels import context_name
from lrbtl.fitting.signal import SIGNAL_FLOOR, THIN_CONTEXT

if TYPE_CHECKING:
    from lrbtl.inference.diagnose import Diagnosis

Level = Literal["ok", "warn"]
Check = tuple[bool, str]  # whether all is well, and the sentence

BERNSTEIN_CEILING = 3.0  # above it a few battles carry most of the correction


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


def sentences(d: "Diagnosis") -> list[tuple[Level, str]]:
    """Return each diagnostic as a sentence, marked "ok" or "warn"."""
    checks = [_signal(d), *([] if d.unit == "observations" else _battles(d)), *_counts(d), *_numbers(d)]
    return [("ok" if good else "warn", text) for good, text in checks]


def _signal(d: "Diagnosis") -> Check:
    text = f"Signal: the weakest component of rank {d.rank} is {d.signal:.2f} times the noise"
    if d.signal < SIGNAL_FLOOR and d.advice is None:
        return True, f"{text}, which matters not: this rank restricts nothing."
    return d.signal >= SIGNAL_FLOOR, f"{text} (wanted: at least {SIGNAL_FLOOR})."


def _battles(d: "Diagnosis") -> list[Check]:
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


def _counts(d: "Diagnosis") -> list[Check]:
    kinds = ("model", "context") if d.unit == "battles" else ("row", "column")
    checks = []
    for kind, (least, median, most) in zip(kinds, (d.battles_per_model, d.battles_per_context), strict=True):
        good = kind != "model" or least >= 30
        checks.append((good, f"{d.unit.capitalize()} per {kind}: {least:,} to {most:,}, median {median:,}."))
    return checks


def _numbers(d: "Diagnosis") -> list[Check]:
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
