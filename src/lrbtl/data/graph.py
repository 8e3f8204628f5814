"""Connectivity of the battles: who can be compared with whom, overall and in each context.

Nodes are (context, model), so one sparse graph holds every context and no loop runs over battles or contexts. A
component is named by its smallest model code: two models of a context belong together if their labels are equal.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from lrbtl.typing import AnyInts, Floats, Indices


def weak_components(
    a: AnyInts, b: AnyInts, n_models: int, *, context: AnyInts | None = None, n_contexts: int = 1
) -> Indices:
    """Return labels (n_contexts, n_models) of the comparison graph: equal labels are linked by a chain of battles.

    Without `context` all battles form one graph. A model without battles is a component of its own.

    >>> weak_components(np.array([0, 1]), np.array([2, 3]), 5)
    array([[0, 1, 0, 1, 4]])
    """
    tail, head = _nodes(a, b, n_models, context)
    return _components(tail, head, (n_contexts, n_models), "weak")


def strong_components(
    a: AnyInts, b: AnyInts, y: Floats, n_models: int, *, context: AnyInts | None = None, n_contexts: int = 1
) -> Indices:
    """Return labels (n_contexts, n_models) of the win digraph, in which y > 0 is a win of a and y < 1 one of b.

    Models with equal labels have a finite maximum-likelihood gap; a tie or soft vote counts as a win of both.

    >>> strong_components(np.array([0, 0]), np.array([1, 2]), np.array([0.5, 1.0]), 3)
    array([[0, 0, 2]])
    """
    tail, head = _nodes(a, b, n_models, context)
    a_won, b_won = y > 0.0, y < 1.0
    winners = np.concatenate([tail[a_won], head[b_won]])
    losers = np.concatenate([head[a_won], tail[b_won]])
    return _components(winners, losers, (n_contexts, n_models), "strong")


def component_members(labels: Indices) -> list[Indices]:
    """Return the members of each component of one context, largest component first, then by smallest member.

    >>> component_members(np.array([0, 1, 1]))
    [array([1, 2]), array([0])]
    """
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    return sorted(members, key=lambda group: (-group.size, group[0]))


def largest_component(labels: Indices, votes: AnyInts) -> Indices:
    """Return the members of the largest component of one context; of equally large ones that with most votes.

    >>> largest_component(np.array([0, 1, 0, 1]), np.array([3, 5, 3, 5]))
    array([1, 3])
    """
    return max(component_members(labels), key=lambda group: (group.size, votes[group].sum()))


def _nodes(a: AnyInts, b: AnyInts, n_models: int, context: AnyInts | None) -> tuple[Indices, Indices]:
    offset = np.zeros(1, dtype=np.intp) if context is None else context.astype(np.intp) * n_models
    return offset + a, offset + b


def _components(tail: Indices, head: Indices, shape: tuple[int, int], connection: Literal["weak", "strong"]) -> Indices:
    from scipy.sparse import coo_array  # a slow import that most sessions do not need
    from scipy.sparse.csgraph import connected_components

    n_nodes = shape[0] * shape[1]
    if n_nodes**2 < tail.size:  # far fewer pairs than battles: each counts once
        tail, head = np.divmod(np.flatnonzero(np.bincount(tail * n_nodes + head, minlength=n_nodes**2)), n_nodes)
    edges = coo_array((np.ones(tail.size, dtype=np.int8), (tail, head)), shape=(n_nodes, n_nodes))
    n_components, labels = connected_components(edges.tocsr(), directed=True, connection=connection)
    smallest = np.empty(n_components, dtype=np.intp)
    smallest[labels[::-1]] = np.arange(n_nodes - 1, -1, -1) % shape[1]  # of repeated indices the last one stays
    return smallest[labels].reshape(shape)
