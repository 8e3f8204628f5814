"""Threads: independent pieces of work side by side, and one thread at a time for the linear algebra.

Matrices here are of the size at which OpenBLAS, with threads of its own, spends most of its time on waiting for them.
"""

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, wraps
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

P = ParamSpec("P")
In = TypeVar("In")
Out = TypeVar("Out")

LINKED = ("numpy.linalg._umath_linalg", "scipy.linalg._fblas")  # modules that bring their own linear algebra
NAMES = [f"{prefix}_%s_num_threads{suffix}" for prefix in ("scipy_openblas", "openblas") for suffix in ("64_", "")]

_lock = Lock()
_users = 0
_before: list[int] = []


def ordered_map(function: Callable[[In], Out], items: Iterable[In], n_threads: int) -> Iterator[Out]:
    """Yield function(item) in the order of the items, which threads work through; NumPy and the kernels let them.

    Examples
    --------
    >>> list(ordered_map(lambda x: x**2, [1, 2, 3], 2))
    [1, 4, 9]
    """
    if n_threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Out]] = deque()  # no more than are worked on: results may be large
    with ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            if len(waiting) == n_threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(function, item))
        while waiting:
            yield waiting.popleft().result()


if TYPE_CHECKING:
    from functools import cached_property

    lazy = cached_property
else:

    class lazy:
        """A property computed once, like `functools.cached_property`, whose lock before Python 3.12 serves all objects.

        Threads that ask for it at the same time may both compute it: it must not depend on which one is kept.
        """

        def __init__(self, function):
            self.function, self.__doc__ = function, function.__doc__

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, instance, owner=None):
            if instance is None:
                return self
            value = instance.__dict__[self.name] = self.function(instance)
            return value


def one_blas_thread(function: Callable[P, Out]) -> Callable[P, Out]:
    """Return the function with OpenBLAS kept to one thread, in the whole process, while it or another such one runs.

    Its own number of threads comes back with the end of the last one. Other libraries of linear algebra are left alone.

    Examples
    --------
    >>> one_blas_thread(abs)(-1.0)
    1.0
    """

    @wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> Out:
        _enter()
        try:
            return function(*args, **kwargs)
        finally:
            _leave()

    return limited


def _enter() -> None:
    global _users, _before
    with _lock:
        if _users == 0:
            _before = [get() for get, _ in _openblas()]
            for _, put in _openblas():
                put(1)
        _users += 1


def _leave() -> None:
    global _users
    with _lock:
        _users -= 1
        if _users == 0:
            for (_, put), number in zip(_openblas(), _before, strict=True):
                put(number)


@cache
def _openblas() -> list[tuple[Callable[[], int], Callable[[int], Any]]]:
    """Return how to ask and to set the number of threads of each OpenBLAS that NumPy and SciPy were linked with."""
    found: list[tuple[Callable[[], int], Callable[[int], Any]]] = []
    for module in LINKED:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            continue
        try:
            library = ctypes.CDLL(spec.origin)
        except OSError:
            continue
        for name in NAMES:
            if hasattr(library, name % "set"):
                found.append((getattr(library, name % "get"), getattr(library, name % "set")))
                break
    return found
