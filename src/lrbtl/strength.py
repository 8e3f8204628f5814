"""Whether battles carry a fit: signal over noise, thin contexts, and the warnings about them."""

import warnings
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from lrbtl.errors import ConvergenceWarning, ThinContextWarning, WeakSignalWarning
from lrbtl.tucker import Tucker, rank_caps

if TYPE_CHECKING:
    from lrbtl.battles import Battles

SIGNAL_FLOOR = 1.5  # below it intervals of simulated fits cover about 0.89
THIN_CONTEXT = 100  # battles; `mle` covers 0.7 to 0.8 in such contexts, cross-fitting above 0.9


def signal_ratio(point: Tucker, n_battles: int, noise: float | None = None) -> float:
    """Return min_k sigma_min(T_(k)) / [sqrt(4 d_eff / n) (sqrt(d_k) + sqrt(prod r / r_k))]: signal over noise.

    `noise` takes the place of the root, which is that of wins and losses near even battles.

    Examples
    --------
    >>> point = Tucker(np.array([[3.0]]), (np.array([[1.0], [-1.0]]) / 2**0.5, np.ones((1, 1))))
    >>> round(signal_ratio(point, 800), 3)
    24.853
    """
    rank, shape = point.rank, point.shape
    if noise is None:
        noise = float(np.sqrt(2 * prod(shape[1:]) * (shape[0] - 1) / n_battles))
    return float(
        min(
            values.min() / (noise * (np.sqrt(d) + np.sqrt(prod(rank) / r)))
            for values, d, r in zip(point.singular_values, shape, rank, strict=True)
        )
    )


def thin_contexts(battles: "Battles") -> tuple[object, ...]:
    """Return the labels of contexts with some battles but fewer than 100."""
    counts = battles.context_counts
    return tuple(battles.context_label(int(u)) for u in np.flatnonzero((counts > 0) & (counts < THIN_CONTEXT)))


def warn_weak_signal(point: Tucker, n_battles: int, noise: float | None = None, *, centred: bool = True) -> None:
    """Warn where the weakest singular value of a fit hardly exceeds the noise, unless the rank restricts nothing."""
    if point.rank == rank_caps(point.shape, centred=centred):
        return
    signal = signal_ratio(point, n_battles, noise)
    if signal < SIGNAL_FLOOR:
        advice = "use a smaller rank or more battles" if max(point.rank) > 1 else "collect more battles"
        warnings.warn(
            f"the weakest singular value of the scores at rank {point.rank} is {signal:.2f} times the noise; below "
            f"{SIGNAL_FLOOR} intervals cover less than they say: {advice}.",
            WeakSignalWarning,
            stacklevel=4,
        )


def warn_thin_contexts(battles: "Battles") -> None:
    """Warn where contexts are too thin for the intervals of `mle`."""
    thin = thin_contexts(battles) if battles.levels else ()
    if thin:
        shown = ", ".join(map(repr, thin[:5])) + (f" and {len(thin) - 5} more" if len(thin) > 5 else "")
        warnings.warn(
            f"contexts {shown} have fewer than {THIN_CONTEXT} battles, where intervals of method='mle' are too short: "
            "use method='efficient'.",
            ThinContextWarning,
            stacklevel=4,
        )


def warn_unconverged(n_failed: int, n_fits: int) -> None:
    """Warn once where fits behind a cross-fitted analysis did not converge."""
    if n_failed:
        warnings.warn(
            f"{n_failed} of the {n_fits} fits behind these intervals did not converge; try a smaller rank or a larger "
            "ridge.",
            ConvergenceWarning,
            stacklevel=4,
        )
