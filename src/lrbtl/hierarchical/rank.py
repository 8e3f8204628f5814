"""Whether the residuals of level + L + E show one more shared factor."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lrbtl.hierarchical.expansion import Expansion, left_by_steps
from lrbtl.hierarchical.random_effects import RandomEffects
from lrbtl.typing import Floats

FIRST_BIT, DRAWS = 8, 29  # bits of pairs and entries, one for each simulated residual: what noise looks like
FEW_DRAWS, CERTAIN = 8, 25.0  # draws after which an excess this large is clear
EXACT_SLOTS = 512  # up to which what L takes of the information is computed, not drawn
AT_A_TIME = 1 << 22  # numbers that simulated residuals may fill


@dataclass(frozen=True)
class Residuals:
    """What residuals of L show.

    Attributes
    ----------
    excess : float
        How far their largest singular value is above noise, in standard deviations of noise.
    certain : int
        Components that are in them for certain.
    taken : float
        Trace of what L takes of W.
    """

    excess: float
    certain: int
    taken: float


def probe_residuals(
    at: Expansion, clip: float, doubt: float = -np.inf, effects: RandomEffects | None = None
) -> Residuals:
    """Return what residuals of L show beyond noise.

    Residuals of L are S g + W E on the slots less what L would take of them, clipped, and white in models and contexts
    after division by the root of the information: few close matches inform levels much less than gaps of neighbours.
    Directions of models count by their shrinkage factor at scores as large as these: those of a newcomer hardly.
    Noise is drawn from the model: votes and deviations of random signs, less what the fit takes of them; a few times
    only where the excess is certain then, or below all `doubt`. Signs belong to pairs and entries, so that one vote
    more changes only its own. What L takes of noise, of variance W, is also the trace of what it takes of W, about; it
    is computed exactly if that is cheap.

    Random effects are noise too, as deviations are: residuals contain them, and draws have some of random signs. Their
    sizes are large where they hide a factor, so that with them singular values count relative to all of the residuals.
    """
    components, most = _components(at, clip, effects), max(1, AT_A_TIME // at.scores.design.n_slots)
    here = components(at.left_by_step if effects is None else effects.left_by_step)
    noise, taken, excess = list[float](), 0.0, np.zeros(1)
    while len(noise) < FEW_DRAWS or (len(noise) < DRAWS and doubt <= excess[0] < CERTAIN):
        first, n = FIRST_BIT + len(noise), min(most, (FEW_DRAWS if len(noise) < FEW_DRAWS else DRAWS) - len(noise))
        drawn = _noise(at, first, n)
        left = left_by_steps(at, drawn)
        taken += float(np.vdot(drawn, drawn - left))
        if effects is not None:
            left = left + effects.random_left(first, n)
        noise += [float(components(np.ascontiguousarray(x))[0]) for x in left.T]
        if len(noise) > 1:
            excess = (here - np.mean(noise)) / max(float(np.std(noise, ddof=1)), 1e-300)
    taken /= len(noise)
    if at.scores.design.n_slots <= EXACT_SLOTS:
        information = at.marginal.apply(np.eye(at.scores.design.n_slots))
        taken = float(np.trace(information - left_by_steps(at, information)))
    return Residuals(float(excess[0]), int(np.count_nonzero(excess >= CERTAIN)), taken)


def _components(at: Expansion, clip: float, effects: RandomEffects | None) -> Callable[[Floats], Floats]:
    """Return a function from residuals on the slots to the singular values of them clipped and white, largest first."""
    design = at.scores.design
    own = design.blocks.scatter([np.einsum("bmm->bm", W) for W in at.marginal.W])
    own = own if effects is None else own + effects.variance_left
    limit = clip * np.sqrt(np.maximum(own, 0.0))
    values, vectors = np.linalg.eigh(design.blocks.summed(at.marginal.W))
    values, narrow = np.maximum(values, 0.0), 1.0 - (at.hyper.factors.loose @ vectors) ** 2
    white = vectors * (np.sqrt(values) / (values + narrow / at.scores.field.mean_square()))
    scale = 1.0 / np.sqrt(np.maximum(design.blocks.traces(at.marginal.W, white @ white.T), 1e-300))
    context, wide = design.slot_places[0], design.n_contexts < white.shape[1]

    def components(residual: Floats) -> Floats:
        clipped = np.clip(residual, -limit, limit) * scale[context]
        if wide:
            matrix = np.asarray(design.entries.slot_matrix(clipped) @ white)
            gram = matrix @ matrix.T
        else:
            gram = white.T @ design.entries.slot_gram(clipped) @ white
        found = np.sqrt(np.maximum(np.linalg.eigvalsh(gram)[::-1], 0.0))
        return np.asarray(found if effects is None else found / max(float(np.linalg.norm(found)), 1e-300))

    return components


def _noise(at: Expansion, first: int, n: int) -> Floats:
    """Return residuals of L of n logs of random signs, (n_slots, n), by bits from the `first` on."""
    design = at.scores.design
    root = np.sqrt(design.entries.atom_weights(at.marginal.votes.weights))
    votes = design.entries.signed_sums(root, design.atom_bits, first, n)
    bits = np.uint64(1) << np.arange(first, first + n, dtype=np.uint64)
    deviations = np.where(design.slot_bits[:, None] & bits, at.tau, -at.tau)
    return votes + at.marginal.apply(deviations - at.tau**2 * votes)  # S votes + W deviations
