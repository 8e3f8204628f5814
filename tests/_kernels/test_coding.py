"""Codes and counts of a battle log against NumPy."""

import numpy as np

from lrbtl._kernels.coding import (
    code_characters,
    code_halves,
    code_objects,
    count_keys,
    count_rows,
    extend_keys,
    key_battles,
    mark_codes,
    sum_counts,
)


def identity(n):
    return np.arange(n, dtype=np.int32)


def test_coding_kernels_equal_numpy() -> None:
    rng = np.random.default_rng(1)
    words = np.array([f"label {k}" for k in range(900)] + ["", "é", "a" * 12])[rng.integers(0, 903, 5000)]
    codes = np.empty(5000, dtype=np.int32)
    first = code_characters(words.view(np.uint32).reshape(5000, -1), codes)
    np.testing.assert_array_equal(words[first][codes], words)
    assert len(set(words)) == len(first)
    labels = code_objects(words.tolist(), codes)
    np.testing.assert_array_equal(np.array(labels)[codes], words)

    keys, weights = rng.integers(0, 20, 300), rng.integers(0, 5, 300)
    table = np.zeros(20, dtype=np.int64)
    count_keys(keys, table)
    np.testing.assert_array_equal(table, np.bincount(keys, minlength=20))
    sum_counts(keys, weights, table)
    np.testing.assert_array_equal(table, np.bincount(keys, minlength=20) + np.bincount(keys, weights, 20))
    present = np.zeros(30, dtype=np.uint8)
    mark_codes(keys.astype(np.int32), present)
    np.testing.assert_array_equal(np.flatnonzero(present), np.unique(keys))

    longer = keys.copy()
    extend_keys(keys.astype(np.int32), identity(20)[::-1].copy(), 20, longer)
    np.testing.assert_array_equal(longer, keys * 20 + 19 - keys)

    columns = [rng.integers(0, size, 3000).astype(np.int32) for size in (4, 7, 3)]
    steps = [identity(4)[::-1] * 21, identity(7) * 3, identity(3)]
    counted = np.zeros(84, dtype=np.uint32)
    count_rows(columns, [np.ascontiguousarray(step) for step in steps], counted)
    places = np.ravel_multi_index((3 - columns[0], *columns[1:]), (4, 7, 3))
    np.testing.assert_array_equal(counted, np.bincount(places, minlength=84))

    halves = np.empty(3, dtype=np.int8)
    assert code_halves(np.array([0.5, 0.0, 1.0]), halves) and halves.tolist() == [1, 0, 2]
    assert not code_halves(np.array([0.5, np.nan, 1.0]), halves)


def test_keys_number_oriented_cells() -> None:
    code = np.array([0, 1, 1, 0], dtype=np.int32)
    other = np.array([1, 0, 1, 1], dtype=np.int32)
    y = np.array([1, 1, 0, 2], dtype=np.int32)
    context = np.array([1, 1, 0, 0], dtype=np.int32)
    sides = np.array([[0, 1], [1, 0], [-1, -1]], dtype=np.int32)
    keys = np.empty(4, dtype=np.int64)
    key_battles(context, code, other, y, identity(2), identity(2), sides, 2, 2, keys)
    place = np.ravel_multi_index(([1, 1], [0, 0], [1, 1], [1, 0]), (2, 2, 2, 2))
    assert keys.tolist() == [place[0] + 2, place[1] + 2, 1, 0]
