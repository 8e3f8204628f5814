"""Threads: independent pieces of work side by side, and one thread at a time for the linear algebra.

Matrices here are of the size at which OpenBLAS, with threads of its own, spends most of its time on waiting for them.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

from lrbtl.errors import MethodError, check_whole

P = ParamSpec("P")
In = TypeVar("In")
Out = TypeVar("Out")

_lock = Lock()
_users = 0
_before: list[int] = []


MOST_THREADS = 1024  # a pool of very many more than there are cores ends the process


def check_threads(n_threads: object) -> None:
    """Raise `MethodError` unless an option is a number of threads that a process can have, or None for all cores."""
    if n_threads is None:
        return
    check_whole(n_threads, "n_threads")
    if n_threads > MOST_THREADS:  # type: ignore[operator]
        raise MethodError(f"n_threads={n_threads}: give at most {MOST_THREADS}, or None for one per core.")


def count_threads(n_threads: int | None) -> int:
    """Return a number of threads; None stands for one per core that this process may use.

    >>> count_threads(3), count_threads(None) >= 1
    (3, True)
    """
    if n_threads is not None:
        return n_threads
    usable = getattr(os, "sched_getaffinity", None)  # where the system reports what a container allows
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def ordered_map(function: Callable[[In], Out], items: Iterable[In], n_threads: int | None) -> Iterator[Out]:
    """Yield function(item) in the order of the items, which threads work through; NumPy and the kernels let them."""
    n_threads = count_threads(n_threads)
    if n_threads == 1:
        yield from map(function, items)
        return
    waiting: deque[Future[Out]] = deque()  # no more than are worked on: results may be large
    with ThreadPoolExecutor(n_threads) as pool:
        for item in items:
            if len(waiting) == n_threads:
                yield waiting.popleft().result()
            waiting.append(pool.submit(copy_context().run, function, item))
        while waiting:
            yield waiting.popleft().result()


def one_blas_thread(function: Callable[P, Out]) -> Callable[P, Out]:
    """Return the function with OpenBLAS kept to one thread, in the whole process, while it or another such one runs.

    Its own number of threads comes back with the end of the last one. Libraries whose limits belong to one thread
    (MKL, OpenBLAS on OpenMP) are left alone.
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
            _before = [library.get_num_threads() for library in _openblas()]
        _users += 1  # first, so that a child forked from here on gives itself its threads back
        if _users == 1:
            _set_threads([1] * len(_before))


def _leave() -> None:
    global _users
    with _lock:
        if _users == 0:  # a child that was forked inside has its threads back already
            return
        if _users == 1:
            _set_threads(_before)
        _users -= 1


def _set_threads(numbers: list[int]) -> None:
    """Set the number of threads of each OpenBLAS, whichever thread asks: the last to leave may not be the first."""
    for library, number in zip(_openblas(), numbers, strict=True):
        release = getattr(library, "clear_controlling_thread", lambda force: None)  # since threadpoolctl 3.8
        release(force=True)
        library.set_num_threads(number)
        release(force=True)


def _after_fork() -> None:
    """Give a child its BLAS threads back: of the threads of its parent it has only the one that forked.

    A lock that another thread held at that moment would stay held for ever.
    """
    global _lock, _users
    _lock = Lock()
    if _users:
        _users = 0
        _set_threads(_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@cache
def _openblas() -> list[Any]:
    """Return the controllers of each OpenBLAS that NumPy and SciPy brought; finding them takes milliseconds."""
    import scipy.linalg  # noqa: F401  # its library must be loaded to be found

    found = ThreadpoolController().select(internal_api="openblas").lib_controllers
    return [library for library in found if library.threading_layer != "openmp"]
