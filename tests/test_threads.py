"""Pieces of work come back in order, and OpenBLAS has one thread while they run and its own number after."""

import os
import threading

import numpy as np
import pytest
import scipy.linalg  # noqa: F401  # brings a BLAS of its own
from threadpoolctl import threadpool_info, threadpool_limits

import lrbtl
from lrbtl.errors import MethodError
from lrbtl.threads import check_threads, one_blas_thread, ordered_map
from problems import simulated


def numbers():
    """Threads of each BLAS at hand."""
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture
def own():
    """Two threads for every BLAS, as a user may have it."""
    with threadpool_limits(2, user_api="blas"):
        yield numbers()


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_order(n_threads):
    assert list(ordered_map(lambda x: x**2, range(20), n_threads)) == [x**2 for x in range(20)]


@pytest.mark.parametrize("n_threads", [1, 2])
def test_errors_come_through(n_threads):
    with pytest.raises(ZeroDivisionError):
        list(ordered_map(lambda x: 1 / x, [1, 0], n_threads))


def test_all_cores_and_too_many():
    assert list(ordered_map(lambda x: x**2, range(5), None)) == [0, 1, 4, 9, 16]
    check_threads(None)
    for wrong in (0, 1025, "two"):
        with pytest.raises(MethodError, match="n_threads="):
            check_threads(wrong)


def in_a_child(function):
    """What a forked child computes, read from its exit code."""
    child = os.fork()
    if not child:
        os._exit(function())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="this sanitizer ends forked processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_fork_after_use_works():
    _, battles = simulated((8, 5), 2, 6000)
    options = {"method": "efficient", "rank": 2, "n_folds": 3, "n_threads": 2}
    board = lrbtl.leaderboard(battles, **options)
    assert in_a_child(lambda: int(lrbtl.leaderboard(battles, **options).to_dict() != board.to_dict())) == 0


def test_few_results_wait():
    started = []
    found = ordered_map(started.append, range(50), 2)
    next(found)
    assert len(started) <= 4
    assert len(list(found)) == 49


@pytest.mark.parametrize("rng", [np.random.default_rng, lambda seed: np.random.PCG64(seed)])
def test_a_shared_source_of_randomness_is_used_in_order(rng):
    _, battles = simulated((8, 5), 2, 6000)
    one, two = (lrbtl.leaderboard(battles, rank=2, context="all", n_folds=3, n_threads=t, rng=rng(3)) for t in (1, 3))
    for name in (None, *one):
        np.testing.assert_array_equal(one[name].rank_lower, two[name].rank_lower)
        np.testing.assert_array_equal(one[name].rank_upper, two[name].rank_upper)


def test_one_thread_while_a_function_runs(own):
    inner = one_blas_thread(numbers)
    outer = one_blas_thread(lambda: (inner(), numbers()))
    assert all(found == [1] * len(own) for found in outer())
    assert numbers() == own


def test_an_error_gives_the_threads_back(own):
    @one_blas_thread
    def fails():
        raise ValueError

    with pytest.raises(ValueError):
        fails()
    assert numbers() == own


def test_the_last_user_gives_them_back(own):
    first_runs, go_on = threading.Event(), threading.Event()

    @one_blas_thread
    def first():
        first_runs.set()
        go_on.wait(10)

    running = threading.Thread(target=first)
    running.start()
    first_runs.wait(10)
    assert one_blas_thread(numbers)() == [1] * len(own)
    assert numbers() == [1] * len(own)  # the first still runs
    go_on.set()
    running.join()
    assert numbers() == own


def test_an_analysis_leaves_no_trace(own):
    _, battles = simulated((6, 4), 1, 1500)
    lrbtl.leaderboard(battles, rank=1, context="all", n_folds=2)
    assert numbers() == own


def test_boards_do_not_depend_on_threads():
    _, battles = simulated((8, 5), 2, 6000)
    one, two = (lrbtl.leaderboard(battles, rank=2, context="all", n_folds=3, n_threads=t) for t in (1, 2))
    for name in (None, *one):
        left, right = one[name], two[name]
        assert left.models == right.models
        for column in ("score", "lower", "upper", "se", "rank_lower", "rank_upper"):
            np.testing.assert_array_equal(getattr(left, column), getattr(right, column))
    ranks = [lrbtl.select_rank(battles, [1, 2], n_folds=2, n_threads=t).log_likelihood for t in (1, 2)]
    np.testing.assert_array_equal(*ranks)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif("tsan" in os.environ.get("LD_PRELOAD", ""), reason="this sanitizer ends forked processes")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_forked_during_a_fit_has_its_threads_back(own):
    inside, done = threading.Event(), threading.Event()

    @one_blas_thread
    def fit():
        inside.set()
        done.wait()

    thread = threading.Thread(target=fit)
    thread.start()
    inside.wait()
    assert numbers() == [1] * len(own)
    assert in_a_child(lambda: 0 if numbers() == own else 1) == 0
    assert in_a_child(lambda: 0 if one_blas_thread(numbers)() == [1] * len(own) and numbers() == own else 1) == 0
    done.set()
    thread.join()
    assert one_blas_thread(lambda: in_a_child(lambda: 0 if numbers() == own else 1))() == 0
    assert numbers() == own
