"""Votes of random signs, one sign for each vote or for each cluster: logs that vary as the votes do (wild bootstrap).

With s the score of a vote along scores and effects and random signs e, sum of e s has the covariance of the votes: sum
of s s^T where each vote has its own sign, sum over clusters of (sum of s) (sum of s)^T where those of a cluster have it
in common. Several columns of clusters are combined by inclusion and exclusion, as in `methods.clusters`: logs by each
set of columns count as plus or minus one.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from lrbtl._kernels import tangent
from lrbtl.fitting.blocks import BlockDesign
from lrbtl.model.effects import EffectTerms, JoinedTerms
from lrbtl.model.links import CellTerms
from lrbtl.typing import Floats, Ints, Longs


@dataclass(frozen=True)
class SignGroups:
    """Votes with the signs that they have in common.

    Attributes
    ----------
    cells : BlockDesign
        The votes.
    eta : array (n_cells,)
        What all votes of a cell add along its eta.
    law : array (n_cells, l)
        And along parameters of the law.
    number : array (n_cells,)
        Group of each cell.
    sign : float
        Of these groups in the covariance.
    alone : bool
        Whether they are those of one column of clusters.
    """

    cells: BlockDesign
    eta: Floats
    law: Floats
    number: Longs
    sign: float = 1.0
    alone: bool = True

    @cached_property
    def n(self) -> int:
        """Number of groups."""
        return int(self.number.max()) + 1

    def drawn(self, rng: np.random.Generator, m: int) -> tuple[Floats, Floats]:
        """Return sums of m logs of random signs, at most 63: on the slots (n_slots, m) and along effects (K, m)."""
        cells, signs = self.cells, rng.integers(0, 1 << 63, self.n, dtype=np.uint64)[self.number]
        slots, linear = np.zeros((cells.n_slots, m)), cells.effects
        tangent.sum_signed_slots(*cells.entries.slots, self.eta, signs, 0, slots)
        k, row = 0 if linear is None else linear.values.size, np.zeros(len(signs), dtype=np.int64)
        effects, nowhere = np.zeros((k + self.law.shape[1] + 1, m)), np.full(len(signs), k + self.law.shape[1])
        if linear is not None:
            width, block = linear.slopes.shape[1], row if linear.start is None else cells.entries.context
            for j, slopes in enumerate(linear.slopes.T):
                tangent.sum_signed_slots(block * width + j, nowhere, self.eta * slopes, signs, 0, effects)
        for j, law in enumerate(self.law.T):
            tangent.sum_signed_slots(row + k + j, nowhere, np.ascontiguousarray(law), signs, 0, effects)
        return slots, effects[:-1]

    @cached_property
    def _of_models(self) -> tuple[Longs, Longs]:
        """Number of each side of each cell among pairs of group and model, first sides first; model of each pair."""
        d1 = self.cells.shape[0]
        key = np.concatenate([self.number * d1 + self.cells.a, self.number * d1 + self.cells.b])
        pairs, number = np.unique(key, return_inverse=True)
        return number, pairs % d1

    def powers(self, values: Floats) -> tuple[Floats, Floats]:
        """Return sums over groups of squares and of fourth powers of what they add to each model, (d1,) each.

        `values` on the slots is what is made of a vote's score there.
        """
        (number, model), (slot_a, slot_b) = self._of_models, self.cells.entries.slots
        each = np.concatenate([self.eta * values[slot_a], -self.eta * values[slot_b]])
        squares = np.bincount(number, each, len(model)) ** 2
        sums = (np.bincount(model, power, self.cells.shape[0]) for power in (squares, squares**2))
        second, fourth = (np.asarray(each, dtype=np.float64) for each in sums)
        return second, fourth


def single_votes(cells: BlockDesign, terms: CellTerms, factor: Floats, meat: Floats) -> SignGroups:
    """Return votes that are independent; `meat` is the variance of the scores of each cell, `factor` that of one."""
    law = np.sqrt(cells.count)[:, None] * (factor[:, None] * law_scores(terms, len(factor)))
    return SignGroups(cells, np.copysign(np.sqrt(meat), terms.score), law, np.arange(len(factor)))


def clustered_votes(cells: BlockDesign, terms: CellTerms, factor: Floats, clusters: Ints) -> list[SignGroups]:
    """Return the groups of votes (n_cells, c) of c columns of clusters, for each set of columns."""
    out, columns = [], range(clusters.shape[1])
    for chosen in (some for size in range(1, len(columns) + 1) for some in combinations(columns, size)):
        number = np.zeros(len(clusters), dtype=np.int64)
        for k in chosen:
            _, number = np.unique(number * (int(clusters[:, k].max()) + 1) + clusters[:, k], return_inverse=True)
        n = int(number.max()) + 1
        size = cells.count * factor * np.sqrt(n / max(n - 1, 1))
        law = size[:, None] * law_scores(terms, len(size))
        sign = 1.0 if len(chosen) % 2 else -1.0
        out.append(SignGroups(cells, size * terms.score, law, number.reshape(-1), sign, len(chosen) == 1))
    return out


def law_scores(terms: CellTerms, n_cells: int) -> Floats:
    """Return the scores of one vote of each cell along parameters of the law, (n_cells, l)."""
    effects = terms.effects.law if isinstance(terms.effects, JoinedTerms) else terms.effects
    assert isinstance(effects, EffectTerms)
    return np.broadcast_to(effects.score, (n_cells, effects.score.shape[1]))
