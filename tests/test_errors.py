"""Warnings point at the line of the user, however deep they come from."""

import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import lrbtl
from lrbtl import errors
from lrbtl.errors import IslandWarning, RankCollapseWarning, SelfBattleWarning, SeparationWarning, WeakSignalWarning
from lrbtl.threads import ordered_map


def weak():
    return lrbtl.simulate_battles(lrbtl.simulate_scores((10, 5), 1, scale=1.0, rng=0), 2_000, rng=1)


def island():
    return lrbtl.Battles.from_arrays(["a", "a", "x", "x"], ["b", "b", "y", "y"], [1, 0, 1, 0], counts=[9, 9, 5, 5])


def unbeaten():
    return lrbtl.Battles.from_arrays([0, 1, 1, 0], [1, 2, 2, 2], [1, 1, 0, 1], counts=[5, 5, 5, 5])


@pytest.mark.parametrize(
    ("call", "category"),
    [
        (lambda: lrbtl.Battles.from_arrays(["a", "a"], ["a", "b"], [1, 0]), SelfBattleWarning),
        (lambda: lrbtl.leaderboard(island()), IslandWarning),
        (lambda: lrbtl.win_matrix(island()), IslandWarning),
        (lambda: lrbtl.fit(weak(), 3, ridge=400.0), RankCollapseWarning),
        (lambda: lrbtl.infer(weak(), lrbtl.score(0), rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.leaderboard(weak(), rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.compare(weak(), 0, 1, rank=2, ridge=1.0, method="efficient"), WeakSignalWarning),
        (lambda: lrbtl.fit_separate(unbeaten()), SeparationWarning),
        (lambda: lrbtl.infer(unbeaten(), lrbtl.score(0), method="naive"), SeparationWarning),
    ],
)
def test_the_line_is_the_users(call, category):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        call()
    found = [warning for warning in said if warning.category is category]
    assert found and {warning.filename for warning in found} == {__file__}
    assert np.all([warning.lineno == call.__code__.co_firstlineno for warning in found])


def every(base):
    return [
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, base) and kind is not base
    ]


def test_every_error_is_one_that_python_has_too():
    for kind in every(errors.LrbtlError):
        assert issubclass(kind, ValueError | TypeError | LookupError | OSError | ImportError), kind
    assert issubclass(errors.RankError, ValueError)


def test_errors_and_warnings_carry_a_code_and_data_through_a_pickle():
    codes = set()
    for kind in (*every(errors.LrbtlError), *every(errors.LrbtlWarning)):
        told = pickle.loads(pickle.dumps(kind("what, where", argument="rank", value=9)))
        assert type(told) is kind and told.args == ("what, where",) and str(told) == "what, where"
        assert told.data == {"argument": "rank", "value": 9}
        codes.add((told.code, issubclass(kind, Warning)))
    assert ("unknown-model", False) in codes and ("separation", True) in codes


def test_what_common_errors_are_about():
    battles = weak()
    for call, data in [
        (lambda: lrbtl.leaderboard(battles, method="best"), {"argument": "method", "value": "best"}),
        (lambda: lrbtl.gap("nobody", 0).resolve(battles), {"value": "nobody"}),
        (lambda: lrbtl.leaderboard(battles, context=99), {"value": 99}),
        (lambda: lrbtl.leaderboard(battles, level=2), {"argument": "level", "value": 2}),
        (lambda: lrbtl.leaderboard(battles, rank=99), {"argument": "rank", "value": 99}),
        (lambda: lrbtl.Battles.from_frame({"model_a": ["x"]}), {"value": "model_b"}),
        (lambda: lrbtl.Battles.from_arrays(["x"], ["y"], ["perhaps"]), {"words": {"perhaps": 1}}),
        (lambda: lrbtl.Battles.from_arrays(["x"], ["y"], [7]), {"value": 7}),
    ]:
        with pytest.raises(errors.LrbtlError) as caught:
            call()
        assert {**caught.value.data, **data} == caught.value.data, caught.value  # type: ignore[dict-item]


def test_library_code_leaves_the_filters_of_its_host_alone():
    source = Path(lrbtl.__file__).parent
    for path in source.rglob("*.py"):
        for name in ("catch_warnings", "simplefilter", "filterwarnings", "showwarning"):
            assert name not in path.read_text(encoding="utf-8").replace("`warnings.catch_warnings` would", ""), path


def test_warnings_are_heard_or_left_out_in_one_thread_only():
    heard, elsewhere = [], []

    def other():
        with errors.heard_by(elsewhere.append):
            pause.wait()
            errors.warn_user("other", SeparationWarning)

    pause = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    with errors.heard_by(heard.append), errors.without(SeparationWarning):
        errors.warn_user("left out", SeparationWarning)
        errors.warn_user("said", IslandWarning, n=2)
        list(ordered_map(lambda k: errors.warn_user(f"left out {k}", SeparationWarning), range(3), 2))
        pause.set()
        thread.join()
    assert [(str(told), told.data) for told in heard] == [("said", {"n": 2})] and list(map(str, elsewhere)) == ["other"]
    with pytest.warns(IslandWarning, match="through"), errors.without(SeparationWarning):
        errors.warn_user("through", IslandWarning)
