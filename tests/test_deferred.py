"""Arrays that are computed when they are first read."""

import pickle

import numpy as np

from lrbtl.deferred import Deferred


def test_computed_once_and_only_when_read():
    calls = []

    def compute():
        calls.append(1)
        return np.arange(4.0)

    whole = Deferred(compute)
    part = whole.rows(np.array([3, 1]))
    assert not calls
    np.testing.assert_array_equal(part.read(), [3.0, 1.0])
    np.testing.assert_array_equal(whole.read(), np.arange(4.0))
    assert calls == [1]


def test_pickling_keeps_what_was_computed():
    later = Deferred(lambda: [1.0])
    assert pickle.loads(pickle.dumps(later)).read() is None
    later.read()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(later)).read(), [1.0])


def test_nothing_stays_nothing():
    assert Deferred(None).rows(np.array([0])).read() is None
