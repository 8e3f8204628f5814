"""Checks of the options that fits, inference and boards share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lrbtl.data.folds import check_fold_number
from lrbtl.errors import LrbtlError, MethodError, RankError, RidgeError
from lrbtl.typing import Floats


def check_choice(value: object, choices: tuple[str, ...], name: str, error: type[LrbtlError] = MethodError) -> None:
    """Raise where an option is none of the known ones.

    Examples
    --------
    >>> check_choice("mle", ("efficient", "mle"), "method")
    """
    if value not in choices:
        raise error(f"{name}={value!r} is not known; choose one of {', '.join(map(repr, choices))}.")


def check_whole(value: Any, name: str) -> None:
    """Raise `MethodError` unless an option is a whole number of at least 1.

    Examples
    --------
    >>> check_whole(2, "n_threads")
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise MethodError(f"{name}={value!r}: give a whole number of at least 1.")


def check_rank_kind(rank: Any) -> None:
    """Raise `RankError` unless a rank is an int, one int per mode, or "auto", whatever the shape allows.

    Examples
    --------
    >>> check_rank_kind("auto"), check_rank_kind((3, 2, 2))
    (None, None)
    """
    if isinstance(rank, str) and rank == "auto":
        return
    values = [rank] if isinstance(rank, str) or np.ndim(rank) == 0 else list(rank)
    whole = [isinstance(r, int | np.integer) and not isinstance(r, bool) and r >= 1 for r in values]
    if not whole or not all(whole):
        raise RankError(f"rank={rank!r} is not known: give an int of at least 1, one such int per mode, or 'auto'.")


def check_ridge(ridge: float | Sequence[float], shape: tuple[int, ...]) -> Floats:
    """Return one non-negative ridge per mode (two for order 1)."""
    order = max(len(shape), 2)
    try:
        values = np.broadcast_to(np.asarray(ridge, dtype=float), (order,))
    except (TypeError, ValueError):
        values = np.full(order, np.nan)
    if np.shape(ridge) not in ((), (order,)) or not np.all(np.isfinite(values)) or values.min() < 0:
        raise RidgeError(f"ridge={ridge!r} is not valid: give a finite number >= 0, {order} of them, or 'auto'.")
    return values.copy()


def check_run(shape: tuple[int, ...], *, rank: Any, ridge: Any, n_folds: Any, n_threads: Any) -> None:
    """Raise where an option of an analysis is no such option, whether or not the method will use it."""
    check_rank_kind(rank)
    if not (isinstance(ridge, str) and ridge == "auto"):
        check_ridge(ridge, shape)
    check_fold_number(n_folds)
    check_whole(n_threads, "n_threads")
