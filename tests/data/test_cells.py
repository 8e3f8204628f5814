"""Cells against a plain Python count, and the invariances that any count must have."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrbtl.data import cells as cells_module
from lrbtl.data.cells import (
    Cells,
    Column,
    canonical_outcome,
    component_members,
    count_battles,
    group_rows,
    make_cells,
    merge_cells,
    recode_cells,
    strong_components,
    weak_components,
)
from lrbtl.errors import TooLargeError

D1, D = 5, 3
OUTCOMES = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
rows = st.lists(
    st.tuples(
        st.integers(0, D - 1), st.integers(0, D1 - 1), st.integers(0, D1 - 1), st.integers(0, 4), st.integers(0, 3)
    ),
    min_size=1,
    max_size=40,
)


def identity(size: int) -> np.ndarray:
    return np.arange(size, dtype=np.int32)


def counted(table: np.ndarray, counts: np.ndarray | None = None) -> tuple[Cells, int]:
    context, a, b, y = table.T[:4]
    return count_battles(
        [Column(context, identity(D))],
        Column(a, identity(D1)),
        Column(b, identity(D1)),
        Column(y, identity(5)),
        shape=(D1, D),
        outcomes=OUTCOMES,
        counts=counts,
    )


def plain_count(table: np.ndarray, counts: np.ndarray) -> dict[tuple[int, int, int, float], int]:
    total: Counter[tuple[int, int, int, float]] = Counter()
    for (u, a, b, y), n in zip(table[:, :4].tolist(), counts.tolist(), strict=True):
        if a != b and n:
            total[(u, a, b, OUTCOMES[y]) if a < b else (u, b, a, 1.0 - OUTCOMES[y])] += n
    return dict(total)


def as_dict(cells: Cells) -> dict[tuple[int, int, int, float], int]:
    keys = zip(cells.context.tolist(), cells.a.tolist(), cells.b.tolist(), cells.y.tolist(), strict=True)
    return dict(zip(keys, cells.count.tolist(), strict=True))


def check_form(cells: Cells, n_contexts: int) -> None:
    keys = list(as_dict(cells))
    assert keys == sorted(keys) and len(keys) == cells.n_cells
    assert (cells.a < cells.b).all() and (cells.count > 0).all()
    assert len(cells.start) == n_contexts + 1 and cells.start[-1] == cells.n_cells
    for u in range(n_contexts):
        assert (cells.context[cells.start[u] : cells.start[u + 1]] == u).all()
    kinds = {"context": np.int32, "a": np.int32, "b": np.int32, "y": np.float64, "count": np.int64, "start": np.int64}
    assert all(getattr(cells, name).dtype == kind for name, kind in kinds.items())


@pytest.mark.parametrize("dense", [True, False])
@given(rows=rows)
@settings(max_examples=40)
def test_counts_equal_a_plain_count(dense: bool, rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows)
    with pytest.MonkeyPatch.context() as patch:
        if not dense:
            patch.setattr(cells_module, "_SMALL_TABLE", 0)
        patch.setattr(cells_module, "_CHUNK", 7)
        for counts in (None, table[:, 4].astype(np.int64)):
            cells, n_self = counted(table, counts)
            weights = np.ones(len(table), dtype=np.int64) if counts is None else counts
            check_form(cells, D)
            assert as_dict(cells) == plain_count(table, weights)
            assert n_self == weights[table[:, 1] == table[:, 2]].sum()


@given(rows=rows, cut=st.integers(0, 40))
@settings(max_examples=30)
def test_merging_parts_equals_counting_all(rows: list[tuple[int, ...]], cut: int) -> None:
    table = np.array(rows)
    parts = [counted(part)[0] for part in (table[:cut], table[cut:]) if len(part)]
    merged = merge_cells(parts[0], parts[-1], n_models=D1, n_contexts=D) if len(parts) > 1 else parts[0]
    check_form(merged, D)
    assert as_dict(merged) == as_dict(counted(table)[0])


@given(rows=rows, order=st.permutations(range(D1)))
@settings(max_examples=30)
def test_recoding_models_equals_recoding_rows(rows: list[tuple[int, ...]], order: list[int]) -> None:
    table = np.array(rows)
    recoded = recode_cells(counted(table)[0], np.array(order), np.arange(D), n_models=D1, n_contexts=D)
    table[:, 1:3] = np.array(order)[table[:, 1:3]]
    check_form(recoded, D)
    assert as_dict(recoded) == as_dict(counted(table)[0])


def test_recoding_leaves_out_what_maps_nowhere() -> None:
    cells = counted(np.array([[0, 0, 1, 4, 1], [1, 1, 2, 4, 1], [2, 0, 1, 4, 1]]))[0]
    kept = recode_cells(cells, np.array([0, 1, -1, -1, -1]), np.array([-1, 0, 1]), n_models=2, n_contexts=2)
    assert as_dict(kept) == {(1, 0, 1, 1.0): 1}


@given(y=st.lists(st.floats(0, 1), min_size=1))
def test_canonical_outcomes_commute_with_swapping_sides(y: list[float]) -> None:
    values = np.array(y)
    once = canonical_outcome(values)
    np.testing.assert_allclose(once, values, atol=1e-14)
    np.testing.assert_array_equal(canonical_outcome(once), once)
    np.testing.assert_array_equal(canonical_outcome(1.0 - once), canonical_outcome(1.0 - values))
    np.testing.assert_array_equal(canonical_outcome(1.0 - canonical_outcome(1.0 - values)), once)


def test_canonical_outcomes_keep_decimals() -> None:
    decimals = np.arange(101) / 100
    np.testing.assert_array_equal(canonical_outcome(decimals), decimals)
    np.testing.assert_array_equal(canonical_outcome(1 - decimals[::-1]), decimals)


def test_grouping_survives_key_spaces_beyond_64_bits() -> None:
    rng = np.random.default_rng(0)
    columns = [rng.integers(0, 3, 50) * (2**40) for _ in range(3)]
    order, first = group_rows(columns, [2**42] * 3)
    stacked = np.stack(columns, axis=1)
    np.testing.assert_array_equal(stacked[order[first]], np.unique(stacked, axis=0))


def test_too_many_contexts_are_refused() -> None:
    column = Column(np.zeros(1, dtype=np.int64), identity(1))
    with pytest.raises(TooLargeError, match="too many"):
        count_battles([column] * 2, column, column, column, shape=(2, 2**20, 2**20), outcomes=OUTCOMES)


def test_make_cells_of_nothing() -> None:
    none = np.empty(0, dtype=np.int64)
    cells = make_cells(none, none, none, np.empty(0), none, n_models=2, n_contexts=2)
    assert cells.n_cells == 0 and cells.start.tolist() == [0, 0, 0]


# ------------------------------------------------------------------------------
# Connectivity of cells, against the closure of their graph.
# ------------------------------------------------------------------------------


def reachable(adjacency):
    """Warshall's closure, as an independent reference."""
    reach = adjacency | np.eye(len(adjacency), dtype=bool)
    for k in range(len(reach)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def smallest_member(mutual):
    return np.argmax(mutual, axis=1)


battle_lists = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 4), st.sampled_from([0.0, 0.3, 0.5, 1.0])).filter(
        lambda row: row[1] != row[2]
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=80, deadline=None)
@given(battle_lists)
def test_components_agree_with_transitive_closure(rows):
    context, a, b = np.array([row[:3] for row in rows]).T
    y = np.array([row[3] for row in rows])
    weak = weak_components(a, b, 5, context=context, n_contexts=3)
    strong = strong_components(a, b, y, 5, context=context, n_contexts=3)
    assert weak.shape == strong.shape == (3, 5)
    for u in range(3):
        met, beat = np.zeros((5, 5), bool), np.zeros((5, 5), bool)
        for c, i, j, outcome in rows:
            if c == u:
                met[i, j] = met[j, i] = True
                beat[i, j] |= outcome > 0
                beat[j, i] |= outcome < 1
        assert weak[u].tolist() == smallest_member(reachable(met)).tolist()
        reach = reachable(beat)
        assert strong[u].tolist() == smallest_member(reach & reach.T).tolist()
    overall = weak_components(a, b, 5)
    met = np.zeros((5, 5), bool)
    met[a, b] = met[b, a] = True
    assert overall[0].tolist() == smallest_member(reachable(met)).tolist()


@settings(max_examples=30, deadline=None)
@given(battle_lists)
def test_swapping_sides_changes_nothing(rows):
    context, a, b = np.array([row[:3] for row in rows]).T
    y = np.array([row[3] for row in rows])
    kept = strong_components(a, b, y, 5, context=context, n_contexts=3)
    swapped = strong_components(b, a, 1 - y, 5, context=context, n_contexts=3)
    assert np.array_equal(kept, swapped)


def test_members_are_listed_largest_first():
    groups = component_members(np.array([0, 1, 1, 0, 1, 5]))
    assert [g.tolist() for g in groups] == [[1, 2, 4], [0, 3], [5]]
