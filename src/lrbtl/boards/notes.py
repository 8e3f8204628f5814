"""Sentences on a board as a whole: what became of its votes."""

import numpy as np

from lrbtl.boards.board import count_of
from lrbtl.boards.components import Component
from lrbtl.data.cells import BOTH_BAD
from lrbtl.model.links import TIE_LINKS
from lrbtl.typing import Floats


def vote_notes(part: Component, weights: Floats) -> list[str]:
    """Return what became of ties and of votes that both were bad, and what scores of other links mean."""
    cells, link = part.battles.cells, part.analysis.provenance.link
    count = np.where(weights[cells.context] > 0, cells.count, 0)
    ties, bad = (int(count[cells.y == value].sum()) for value in (0.5, BOTH_BAD))
    own = bad > 0 or link in TIE_LINKS
    notes = []
    if part.battles.vote_weights is not None:
        worth = f"{part.battles.n_effective:,.0f} of equal weight"
        notes.append(f"votes are weighted: all {part.battles.n_battles:,} tell as much as {worth}")
    if ties:
        one = ties == 1
        meaning = "an outcome of their own" if own else "half a win for both"
        verb = ("is" if one else "are") if own else ("counts as" if one else "count as")
        notes.append(f"{count_of(ties, 'tie')} ({ties / count.sum():.1%}) {verb} {meaning}")
    if bad:
        say = f"{count_of(bad, 'vote')} ({bad / count.sum():.1%}) {'says' if bad == 1 else 'say'}"
        notes.append(f"{say} that both were bad, which sets the zero of scores")
    elif link is not None:
        notes.append(f"{link} link; scores are scaled to the log odds of a nearly even vote")
    return notes
