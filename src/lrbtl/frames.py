"""Columns as the user's kind of frame."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lrbtl.errors import FrameBackendError

CONSTRUCTORS = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}


def to_frame(columns: Mapping[str, Any], backend: str | None = None) -> Any:
    """Return a pandas, polars or pyarrow frame of these columns.

    Parameters
    ----------
    columns
        Column name to values, all of one length.
    backend
        "pandas", "polars" or "pyarrow"; None takes the first of them that is installed.

    Examples
    --------
    >>> to_frame({"model": ["x", "y"], "score": [1.0, -1.0]}, backend="polars").shape
    (2, 2)
    """
    name = _first_installed() if backend is None else backend
    if name not in CONSTRUCTORS:
        raise FrameBackendError(f"unknown frame backend {backend!r}; choose one of {', '.join(CONSTRUCTORS)}.")
    try:
        module = import_module(name)
    except ImportError as error:
        raise FrameBackendError(
            f"{name} is not installed; install it, name another backend or use to_dict()."
        ) from error
    return getattr(module, CONSTRUCTORS[name])(dict(columns))


def _first_installed() -> str:
    for name in CONSTRUCTORS:
        if find_spec(name) is not None:
            return name
    raise FrameBackendError(
        f"none of {', '.join(CONSTRUCTORS)} is installed; install one of them, or use to_dict(), which needs none."
    )
