"""Warnings that point at the line of the user who caused them."""

import sys
import warnings

from lrbtl.errors import LrbtlWarning


def warn_user(message: str, category: type[LrbtlWarning]) -> None:
    """Warn at the first line outside of lrbtl, whatever the way there.

    Examples
    --------
    >>> from lrbtl.errors import ThinContextWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_user("few battles", ThinContextWarning)
    >>> caught[0].category.__name__
    'ThinContextWarning'
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module == "lrbtl" or module.startswith("lrbtl.")
