"""Sizes, such as s and tau, by their evidence: the distribution of one size given the others, as a few nodes.

The prior of a size is flat up to the largest one; it is integrated on the log scale.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import logsumexp, ndtr

GRID_RATIO = 1.5  # ratio of sizes whose evidence gives its curvature
EVIDENCE_DROP = 6.0  # nats below the most evidence, to which sizes are looked at
MOST_STEPS = 20  # sizes that are looked at on each side
GRID = 400
QUANTILES, WEIGHTS = ndtr(np.array([-np.sqrt(3), 0.0, np.sqrt(3)])), (1 / 6, 2 / 3, 1 / 6)  # Gauss and Hermite's rule


@dataclass(frozen=True)
class SizePosterior:
    """The distribution of a size: nodes (size, weight) and the log of its likelihood, integrated over the prior.

    Without a largest size the prior has density one.
    """

    nodes: list[tuple[float, float]]
    log_evidence: float

    @property
    def typical(self) -> float:
        """Root mean square of the size."""
        return float(np.sqrt(sum(weight * size**2 for size, weight in self.nodes)))

    @classmethod
    def known(cls, size: float, log_evidence: float = 0.0) -> "SizePosterior":
        """Return that of a size that is known."""
        return cls([(size, 1.0)], log_evidence)


def size_posterior(
    log_likelihood: Callable[[float], float],
    size: float,
    *,
    largest: float,
    least: float,
    sure: float,
) -> SizePosterior:
    """Return the distribution of a size round its likeliest value, from its log likelihood.

    Examples
    --------
    >>> found = size_posterior(lambda x: -50 * (x - 1) ** 2, 1.0, largest=9.0, least=0.01, sure=0.05)
    >>> [round(x, 1) for x, _ in found.nodes]
    [0.8, 1.0, 1.1]
    """
    given = size = min(max(size, least), largest)
    seen = {x: log_likelihood(x) for x in (size / GRID_RATIO, size, size * GRID_RATIO)}
    for _ in range(MOST_STEPS):  # uphill: where votes are few, the size that was given may be far from the likeliest
        size = max(seen, key=lambda x: seen[x])
        if min(seen) < size < max(seen) or not least < size < largest:
            break
        beyond = size / GRID_RATIO if size == min(seen) else size * GRID_RATIO
        seen[beyond] = log_likelihood(beyond)
    flat = -np.log(largest) if np.isfinite(largest) else 0.0  # log density of the prior
    if min(seen) < size < max(seen):
        low, here, high = (seen[x] for x in _neighbours(sorted(seen), size))
        bend = 2 * here - low - high
        if bend > 0 and np.log(GRID_RATIO) / np.sqrt(bend) < sure:
            width = size * np.log(GRID_RATIO) / np.sqrt(bend) * np.sqrt(2.0 * np.pi)
            top = size if size == given else size * GRID_RATIO ** ((high - low) / (2 * bend))  # of a parabola
            return SizePosterior.known(float(top), here + float(np.log(width)) + flat)
    for direction in (1.0 / GRID_RATIO, GRID_RATIO):
        end = min(seen) if direction < 1 else max(seen)
        for _ in range(MOST_STEPS):
            if seen[end] < max(seen.values()) - EVIDENCE_DROP or not least < end < largest:
                break
            end *= direction
            seen[end] = log_likelihood(end)
    sizes = np.array(sorted(seen))
    values = np.array([seen[x] for x in sizes])
    logs = np.linspace(np.log(sizes[0]), np.log(min(sizes[-1], largest)), GRID)
    density = PchipInterpolator(np.log(sizes), values)(logs) + logs  # flat in the size itself
    below = np.full(1, values[0] + np.log(sizes[0]))  # smaller ones are like the smallest that was looked at
    step = np.log(logs[1] - logs[0])
    weights = np.concatenate([below, density + step])
    places = np.concatenate([[sizes[0] / 2], np.exp(logs)])
    total = float(logsumexp(weights)) + flat
    share = np.exp(weights - logsumexp(weights))
    reach = np.cumsum(share) / share.sum()
    found = np.interp(QUANTILES, reach, places)
    return SizePosterior([(float(x), weight) for x, weight in zip(found, WEIGHTS, strict=True)], total)


def _neighbours(sizes: list[float], size: float) -> list[float]:
    """Return the next smaller size, a size, and the next larger one."""
    place = sizes.index(size)
    return sizes[place - 1 : place + 2]
