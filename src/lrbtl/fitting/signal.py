"""Whether battles carry a fit: signal over noise, thin contexts, and warnings about them."""

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.data.labels import context_name
from lrbtl.errors import ConvergenceWarning, ThinContextWarning, VarianceWarning, WeakSignalWarning, warn_user
from lrbtl.lowrank.tucker import Tucker, rank_caps

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles

SIGNAL_FLOOR = 1.5  # below it intervals of simulated fits cover about 0.89
VARIANCES_OFF = 1.5  # ratio of squared residuals to given variances that is no longer chance
THIN_CONTEXT = 100  # battles; `mle` covers 0.7 to 0.8 in such contexts, cross-fitting above 0.9


def signal_ratio(point: Tucker, n_battles: int, noise: float | None = None) -> float:
    """Return min_k sigma_min(T_(k)) / [sqrt(4 d_eff / n) (sqrt(d_k) + sqrt(prod r / r_k))]: signal over noise.

    `noise` takes the place of the root, which is that of wins and losses near even battles.

    >>> point = Tucker(np.array([[3.0]]), (np.array([[1.0], [-1.0]]) / 2**0.5, np.ones((1, 1))))
    >>> round(signal_ratio(point, 800), 3)
    24.853
    """
    floors = _noise_floors(point, n_battles, noise)
    return float(min(values.min() / floor for values, floor in zip(point.singular_values, floors, strict=True)))


def _noise_floors(point: Tucker, n_battles: int, noise: float | None) -> list[float]:
    """Return the size of noise in the singular values of each mode."""
    rank, shape = point.rank, point.shape
    if noise is None:
        noise = float(np.sqrt(2 * prod(shape[1:]) * (shape[0] - 1) / n_battles))
    return [noise * (d**0.5 + (prod(rank) / r) ** 0.5) for d, r in zip(shape, rank, strict=True)]


def thin_contexts(battles: "Battles") -> tuple[object, ...]:
    """Return the labels of contexts with some battles but fewer than 100."""
    counts = battles.context_counts
    return tuple(battles.context_label(int(u)) for u in np.flatnonzero((counts > 0) & (counts < THIN_CONTEXT)))


def strong_rank(point: Tucker, n_battles: int, noise: float | None = None) -> int:
    """Return how many components of each mode stand clear of the noise; 0 where none does."""
    return int(
        min(
            np.count_nonzero(values >= SIGNAL_FLOOR * floor)
            for values, floor in zip(point.singular_values, _noise_floors(point, n_battles, noise), strict=True)
        )
    )


def restricts(point: Tucker, *, centred: bool = True) -> bool:
    """Return whether the rank is below what the shape allows; else no component can be too many."""
    return point.rank != rank_caps(point.shape, centred=centred)


def weak_advice(point: Tucker, n_battles: int, noise: float | None, chosen: bool, unit: str = "battles") -> str:
    """Return what a signal near the noise means for a fit, and what to do; `chosen`: by rank="auto"."""
    strong = strong_rank(point, n_battles, noise)
    if chosen:
        leave = f"; rank={strong} would leave it out" if strong else ""
        return (
            f"rank='auto' kept it because it predicts held-out {unit} better. Intervals of targets that depend on it "
            f"may be a bit short. Nothing needs doing{leave}"
        )
    if max(point.rank) == 1:
        return f"intervals cover less than they say: collect more {unit}"
    smaller = "a smaller rank" + (f" (rank={strong} stands clear of it)" if strong else "")
    return f"intervals cover less than they say: use {smaller} or more {unit}"


def warn_weak_signal(point: Tucker, n_battles: int, noise: float | None = None, *, centred: bool = True) -> None:
    """Warn where the weakest singular value of a fit hardly exceeds the noise, unless the rank restricts nothing."""
    signal = signal_ratio(point, n_battles, noise)
    if signal < SIGNAL_FLOOR and restricts(point, centred=centred):
        unit = "battles" if centred else "observations"
        warn_user(
            f"the weakest component of rank {point.rank} is {signal:.2f} times the noise, below {SIGNAL_FLOOR}; "
            f"{weak_advice(point, n_battles, noise, False, unit)}.",
            WeakSignalWarning,
        )


def warn_thin_contexts(battles: "Battles") -> None:
    """Warn where contexts are too thin for the intervals of `mle`."""
    thin = thin_contexts(battles) if battles.levels else ()
    if thin:
        more = f" and {len(thin) - 5} more" if len(thin) > 5 else ""
        shown = ", ".join(repr(context_name(u)) for u in thin[:5]) + more
        warn_user(
            f"contexts {shown} have fewer than {THIN_CONTEXT} battles, where intervals of method='mle' are too short: "
            "use method='efficient'.",
            ThinContextWarning,
        )


def warn_wrong_variances(ratio: float) -> None:
    """Warn where squared residuals are far from the variances that were given, by their mean ratio."""
    if not 1.0 / VARIANCES_OFF < ratio < VARIANCES_OFF:
        warn_user(
            f"squared residuals are {ratio:.2g} times the given variances on average, but standard errors take these "
            "at their word: give variances rather than weights, or leave `variance` out.",
            VarianceWarning,
        )


def warn_unconverged(n_failed: int, n_fits: int) -> None:
    """Warn once where fits behind a cross-fitted analysis did not converge."""
    if n_failed:
        warn_user(
            f"{n_failed} of the {n_fits} fits behind these intervals did not converge; try a smaller rank or a larger "
            "ridge.",
            ConvergenceWarning,
        )
