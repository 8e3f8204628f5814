import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lrbtl.data.cells import component_members, strong_components, weak_components


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
