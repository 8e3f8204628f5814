"""Rows counted batch by batch: the same as all at once, whatever the batches and however they are kept."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl.data.group
from lrbtl.data.encode import Coded, encode
from lrbtl.data.group import RowCounter
from lrbtl.errors import FileReadError

ROWS = st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 3), st.sampled_from([0.0, 0.25, 1.0])), min_size=1)


def counted(rows, size):
    """Distinct rows and their numbers, from batches of a size."""
    counter = RowCounter(len(rows[0]))
    for lo in range(0, len(rows), size):
        part = [list(column) for column in zip(*rows[lo : lo + size], strict=True)]
        counter.add([encode(column, "column") for column in part])
    counter.add([encode([], "column")] * len(rows[0]))
    assert counter.n_rows == len(rows)
    columns, times = counter.rows()
    values = [column.tolist() if isinstance(column, np.ndarray) else column.values(column.codes) for column in columns]
    return list(zip(*values, strict=True)), times


@pytest.mark.parametrize(
    "limits",
    [{}, {"MOST_WAITING": 7}, {"MOST_COUNTED": 20}, {"LARGEST_TABLE": 4}, {"LARGEST_TABLE": 4, "FEWEST_MERGED": 2}],
)
@pytest.mark.parametrize("more", [{}, {"KEY_LIMIT": 10}])
@given(rows=ROWS, size=st.integers(1, 40))
@settings(max_examples=25, deadline=None)
def test_batches_do_not_matter(limits, more, rows, size):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**limits, **more}.items():
            patch.setattr(lrbtl.data.group, name, value)
        found, times = counted(rows, size)
    assert len(set(found)) == len(found)
    assert dict(zip(found, times.tolist(), strict=True)) == Counter(rows)


def test_batches_that_share_labels():
    labels, rng = ["x", "y", "z"], np.random.default_rng(0)
    batches = [rng.integers(0, size, 50) for size in (1, 2, 2, 3, 3)]
    counter = RowCounter(1)
    for codes in batches:
        counter.add([Coded(codes, labels)])
    (column,), times = counter.rows()
    expected = Counter(np.concatenate(batches).tolist())
    assert dict(zip(column.values(column.codes), times.tolist(), strict=True)) == {
        labels[k]: n for k, n in expected.items()
    }


@pytest.mark.parametrize("limit", [4, 1 << 20])
def test_numbers_that_hardly_repeat_keep_every_row(limit, monkeypatch):
    monkeypatch.setattr(lrbtl.data.group, "LARGEST_TABLE", limit)
    monkeypatch.setattr(lrbtl.data.group, "FEW_NUMBERS", 5)
    rng = np.random.default_rng(0)
    rows = [(str(k), 0.5) for k in rng.integers(0, 9, 300)] + [(str(k), x) for k, x in enumerate(rng.random(300))]
    found, times = counted(rows, 60)
    total = Counter()
    for row, n in zip(found, times.tolist(), strict=True):
        total[row] += n
    assert total == Counter(rows)


def test_more_rows_of_a_kind_than_a_byte_counts():
    labels, n_rows = ["x", "y"], 0
    counter = RowCounter(1)
    for n in (255, 1, 256, 1000):
        counter.add([Coded(np.zeros(n, dtype=np.int32), labels)])
        counter.add([Coded(np.ones(1, dtype=np.int32), labels)])
        n_rows += n
    (column,), times = counter.rows()
    assert dict(zip(column.values(column.codes), times.tolist(), strict=True)) == {"x": n_rows, "y": 4}


@pytest.mark.parametrize("limits", [{}, {"LARGEST_TABLE": 1}])
@pytest.mark.parametrize("batch", [0, 1, 2])
@pytest.mark.parametrize("wrong", [-1, 3, 1 << 20])
def test_codes_without_a_label_are_an_error(limits, batch, wrong, monkeypatch):
    for name, value in limits.items():
        monkeypatch.setattr(lrbtl.data.group, name, value)
    labels, counter = ["x", "y", "z"], RowCounter(2)
    for k in range(3):
        codes = np.array([0, 1, 2, wrong if k == batch else 2], dtype=np.int32)
        columns = [Coded(np.array([0, 1, 2, 0], dtype=np.int32), labels), Coded(codes, labels)]
        if k < batch:
            counter.add(columns)
        elif k == batch:
            with pytest.raises(FileReadError, match="outside of its dictionary"):
                counter.add(columns)
