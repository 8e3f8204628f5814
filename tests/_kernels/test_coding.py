"""Codes and counts of a battle log against NumPy."""

import numpy as np
import pytest

from lrbtl._kernels.coding import (
    code_characters,
    code_halves,
    code_objects,
    code_texts,
    count_keys,
    count_places,
    extend_keys,
    key_battles,
    mark_codes,
    place_rows,
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

    halves = np.empty(3, dtype=np.int8)
    assert code_halves(np.array([0.5, 0.0, 1.0]), halves) and halves.tolist() == [1, 0, 2]
    assert not code_halves(np.array([0.5, np.nan, 1.0]), halves)


@pytest.mark.parametrize("sizes", [(4,), (4, 7), (4, 7, 3), (2, 1, 5, 3, 2)])
def test_places_equal_numpy(sizes):
    rng = np.random.default_rng(len(sizes))
    columns = [rng.integers(0, size, 3000).astype(np.int32) for size in sizes]
    maps = [rng.permutation(size).astype(np.int32) for size in sizes]
    strides = [int(np.prod(sizes[j + 1 :])) for j in range(len(sizes))]
    steps = [codes * np.int32(stride) for codes, stride in zip(maps, strides, strict=True)]
    places = np.empty(3000, dtype=np.int32)
    assert place_rows(columns, steps, places)
    expected = np.ravel_multi_index([codes[column] for codes, column in zip(maps, columns, strict=True)], sizes)
    np.testing.assert_array_equal(places, expected)
    assert place_rows([column[:0] for column in columns], steps, places[:0])

    space = int(np.prod(sizes))
    fresh, table = np.zeros(space, dtype=np.uint8), np.zeros(space, dtype=np.uint32)
    for _ in range(2):
        count_places(places, fresh, table)
    np.testing.assert_array_equal(table + fresh, 2 * np.bincount(expected, minlength=space))


@pytest.mark.parametrize("wrong", [-1, 7, 255, 256, 2**31 - 1, -(2**31), -(2**31) + 7])
@pytest.mark.parametrize("row", [0, 1030, 2999])
def test_codes_without_a_step_are_noticed(wrong, row):
    for j in range(3):
        columns = [np.full(3000, 6, dtype=np.int32) for _ in range(3)]
        steps = [identity(7)] * 3
        places = np.empty(3000, dtype=np.int32)
        assert place_rows(columns, steps, places) and (places == 18).all()
        columns[j][row] = wrong
        assert not place_rows(columns, steps, places)


def test_objects_equal_a_dictionary():
    rng = np.random.default_rng(2)
    shared = [*(f"label {k}" for k in range(9000)), None, 1, 1.0, True, 2.5, (1, 2), float("nan")]
    values = [shared[k] for k in rng.integers(0, len(shared), 30_000)]
    values += ["".join(["label ", str(k)]) for k in range(500)]  # equal to others, but not the same objects
    index: dict[object, int] = {}
    expected = [index.setdefault(value, len(index)) for value in values]
    for given in (values, np.fromiter(values, dtype=object, count=len(values))):
        codes = np.empty(len(values), dtype=np.int32)
        labels = code_objects(given, codes)
        assert codes.tolist() == expected and all(x is y for x, y in zip(labels, index, strict=True))
    assert code_objects([], np.empty(0, dtype=np.int32)) == []
    assert code_objects(np.empty(0, dtype=object), np.empty(0, dtype=np.int32)) == []
    with pytest.raises(TypeError, match="unhashable"):
        code_objects([[1]], np.empty(1, dtype=np.int32))


def test_texts_equal_a_dictionary():
    texts = ["", "x", "yx", "", "model-1", "model-2", "model-12", "model-21", "model-1" * 5, "model-1" * 4 + "model-2"]
    chunks, expected = [], []
    for part, dtype in ((texts, np.int32), (texts[::-1], np.int64)):
        ends = np.cumsum([0] + [len(text) for text in part])
        chunks.append((np.frombuffer("".join(part).encode(), np.uint8), ends.astype(dtype)))
        expected += part
    codes = np.empty(len(expected), dtype=np.int32)
    found = code_texts(chunks, codes)
    assert found == list(dict.fromkeys(text.encode() for text in texts))
    assert [found[code].decode() for code in codes] == expected


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("offsets", [[0, 2, 9], [0, -1, 3], [2, 1, 3], [-5, 1, 3], [0, 1, 2**31 - 1]])
def test_offsets_outside_of_the_bytes_are_noticed(offsets, dtype):
    chunks = [(np.frombuffer(b"abc", np.uint8), np.array(offsets, dtype=dtype))]
    assert code_texts(chunks, np.empty(2, dtype=np.int32)) is None


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
