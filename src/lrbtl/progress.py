"""Progress as people expect it: a bar where somebody looks, a function of yours where not."""

import inspect
import sys
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from lrbtl.errors import MethodError
from lrbtl.typing import Progress


def as_progress(progress: Progress | bool | None) -> Progress | None:
    """Return the function that a progress option stands for, or None.

    True gives a bar on a terminal or in a notebook, by tqdm where that is installed; without it lines on
    standard error.

    >>> as_progress(False) is None, as_progress(print) is print
    (True, True)
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        return _Bar()
    if not (callable(progress) and _takes_a_line(progress)):
        raise MethodError(f"progress={progress!r}: give True, or a function that takes a line of text.")
    return progress


def _takes_a_line(function: Progress) -> bool:
    try:
        inspect.signature(function).bind("")
    except TypeError:
        return False
    except ValueError:  # some compiled functions have no signature
        return True
    return True


class _Bar:
    """One line that changes, and goes when the work is done; nothing before there is something to say."""

    @cached_property
    def _bar(self) -> Any:
        module = "tqdm.auto" if find_spec("ipywidgets") is not None else "tqdm"  # a notebook without widgets gets text
        try:
            tqdm = import_module(module).tqdm
        except ImportError:
            return None
        return tqdm(bar_format="{desc} ({elapsed})", leave=False)

    def __call__(self, text: str) -> None:
        if self._bar is not None:
            self._bar.set_description_str(text)
        elif sys.stderr is not None:
            print(text, file=sys.stderr)
