"""What a diagnosis says, in words: the verdict and one sentence per number."""

from typing import TYPE_CHECKING, Literal

from lrbtl.strength import SIGNAL_FLOOR, THIN_CONTEXT

if TYPE_CHECKING:
    from lrbtl.diagnostics import Diagnosis

Level = Literal["ok", "warn"]

BERNSTEIN_CEILING = 3.0  # above it a few battles carry most of the correction


def verdict(n_groups: int, signal: float, bernstein: float, thin: tuple[object, ...] = ()) -> tuple[str, str]:
    """Return the verdict and its reason, which also tells of thin contexts."""
    conclusion, reason = _conclude(n_groups, signal, bernstein)
    return conclusion, f"{reason} Thin contexts: {_some(thin)} have wide intervals; do not use mle." if thin else reason


def _conclude(n_groups: int, signal: float, bernstein: float) -> tuple[str, str]:
    if n_groups > 1:
        return (
            "too few battles",
            "Some models never meet the others, not even through a chain: make one board per group.",
        )
    strength = f"The weakest singular value is {signal:.1f} times the noise"
    if signal < SIGNAL_FLOOR:
        advice = "intervals cover less than they say. Use a smaller rank or more battles."
        return "too few battles", f"{strength}; below {SIGNAL_FLOOR} {advice}"
    if bernstein > BERNSTEIN_CEILING:
        return "prefer whitened", (
            f"A few battles carry most of the correction: a bound that allows for them is {bernstein:.1f} times the "
            f"normal one, more than {BERNSTEIN_CEILING:.0f}. The efficient direction is then not stable; the whitened "
            "method does not need it."
        )
    return "efficient is safe", f"{strength} and no battle dominates the correction."


def sentences(d: "Diagnosis") -> list[tuple[Level, str]]:
    """Return each diagnostic as a sentence, marked "ok" or "warn"."""
    models, contexts = d.battles_per_model, d.battles_per_context
    checks = [
        (
            d.signal >= SIGNAL_FLOOR,
            f"Signal: the weakest singular value is {d.signal:.2f} times the noise (wanted: at least {SIGNAL_FLOOR}).",
        ),
        (
            len(d.groups) == 1,
            f"Connection: the models form {len(d.groups)} connected group{'s' * (len(d.groups) > 1)}.",
        ),
        (
            not d.split_contexts,
            f"Contexts: {_some(d.split_contexts)} do not connect their models by themselves; "
            "low rank borrows from the others.",
        ),
        (
            not d.thin_contexts,
            f"Thin contexts: {_some(d.thin_contexts)} have fewer than {THIN_CONTEXT} battles; mle is not safe in such.",
        ),
        (models[0] >= 30, f"Battles per model: {models[0]} to {models[2]}, median {models[1]}."),
        (True, f"Battles per context: {contexts[0]} to {contexts[2]}, median {contexts[1]}."),
        (
            max(d.incoherence) < 10,
            f"Incoherence: {', '.join(f'{x:.1f}' for x in d.incoherence)} per mode; 1 is even, large means that a few "
            "models or levels carry a component.",
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
            f"Overlap: observed battles are {d.overlap_min:.2f} to {d.overlap_max:.1f} times as likely as under "
            "uniform "
            "sampling.",
        ),
        (
            d.alignment > 0.1,
            f"Alignment: the targets' gradients have at least {d.alignment:.2f} of the usual share in the "
            "tangent space.",
        ),
        (
            d.bernstein < BERNSTEIN_CEILING,
            f"Bernstein: a bound for any number of battles is {d.bernstein:.2f} times the normal one; far above 1.4 "
            "a few "
            "battles dominate.",
        ),
        (
            d.berry_esseen < 0.3,
            f"Normality: the error of the normal approximation is of order {d.berry_esseen:.3f}.",
        ),
    ]
    return [("ok" if good else "warn", text) for good, text in checks]


def _some(names: tuple[object, ...]) -> str:
    if not names:
        return "none"
    shown = ", ".join(map(str, names[:3])) + (", ..." if len(names) > 3 else "")
    return f"{len(names)} ({shown})"
