"""Scales of scores: per cent, proportion, bounds of your own or any real number, higher or lower is better."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from lrbtl.data.labels import some_of, suggest_labels
from lrbtl.errors import ScaleError, ScoreError
from lrbtl.typing import Floats, Longs

EDGE = 0.005  # share of a range that is added at both ends, so that a score of exactly 0 or 100 has a finite logit
LARGEST = 1e100  # size of a score that can still be squared
REAL_UNITS = ("elo", "usd", "$", "s", "sec", "ms")  # units in headers of scores without bounds
COSTS = ("usd", "$", "s", "sec", "ms")  # of which less is often better
NEARLY = 1.5  # times the upper end of per cents: scores beyond 100 but within this look like mistakes


@dataclass(frozen=True)
class Scale:
    """What the scores of a benchmark are measured in.

    Attributes
    ----------
    low, high : float
        Least and largest score there can be; infinite for real numbers.
    higher_is_better : bool

    Examples
    --------
    >>> Scale(0, 100).name, Scale(0, 1).name, Scale().name
    ('percent', 'proportion', 'real')
    """

    low: float = -np.inf
    high: float = np.inf
    higher_is_better: bool = True

    @property
    def bounded(self) -> bool:
        """Whether there are least and largest scores."""
        return bool(np.isfinite(self.low) and np.isfinite(self.high))

    @property
    def name(self) -> str:
        """The scale in one word, or its bounds."""
        if not self.bounded:
            return "real"
        known = {(0.0, 100.0): "percent", (0.0, 1.0): "proportion"}
        return known.get((self.low, self.high), f"{self.low:g} to {self.high:g}")


REAL, PERCENT, PROPORTION = Scale(), Scale(0.0, 100.0), Scale(0.0, 1.0)
NAMED = {"real": REAL, "percent": PERCENT, "proportion": PROPORTION}


@dataclass(frozen=True, eq=False)
class WorkingScales:
    """From scores to numbers of any size, benchmark by benchmark: arrays (D,).

    A bounded score is z = sign logit(edge + (1 - 2 edge) (y - low) / (high - low)), a real one
    z = sign (y - centre) / spread.
    """

    bounded: Any  # which scales have bounds
    low: Floats  # lower bound, or the centre of real scores
    width: Floats  # upper less lower bound, or the spread of real scores
    sign: Floats  # 1, or -1 where lower is better
    edge: float = EDGE  # share of a range that is added at both ends

    @classmethod
    def of(cls, scales: Sequence[Scale], y: Floats, context: Longs, edge: float = EDGE) -> WorkingScales:
        """Return those of D scales; centres and spreads of real ones are those of the scores y (n,) of contexts."""
        if np.abs(y).max(initial=0.0) > LARGEST:
            raise ScoreError(
                f"a score is {y[np.argmax(np.abs(y))]:g}, beyond {LARGEST:g}: give scores in a larger unit."
            )
        D = len(scales)
        bounded = np.array([scale.bounded for scale in scales], dtype=bool)
        low = np.array([scale.low if scale.bounded else 0.0 for scale in scales])
        width = np.array([scale.high - scale.low if scale.bounded else 1.0 for scale in scales])
        seen = np.bincount(context, minlength=D)
        counts = np.maximum(seen, 1)
        mean = np.bincount(context, y, D) / counts
        spread = np.sqrt(np.bincount(context, (y - mean[context]) ** 2, D) / counts)
        real = ~bounded
        if real.any():
            usual = np.median(spread[real & (spread > 0)]) if np.any(real & (spread > 0)) else 1.0
            overall = y[real[context]].mean() if real[context].any() else 0.0
            low[real], width[real] = np.where(seen > 0, mean, overall)[real], np.where(spread > 0, spread, usual)[real]
        sign = np.array([1.0 if scale.higher_is_better else -1.0 for scale in scales])
        return cls(bounded, low, width, sign, edge)

    def some(self, contexts: Longs) -> WorkingScales:
        """Return those of some contexts, in their order."""
        low, width, sign = self.low[contexts], self.width[contexts], self.sign[contexts]
        return WorkingScales(self.bounded[contexts], low, width, sign, self.edge)

    def forward(self, y: Floats, context: Longs) -> Floats:
        """Return scores on the working scale."""
        share = (y - self.low[context]) / self.width[context]
        bounded = self.bounded[context]
        inner = np.where(bounded, self.edge + (1.0 - 2.0 * self.edge) * share, 0.5)
        return np.asarray(self.sign[context] * np.where(bounded, logit(inner), share))

    def backward(self, z: Floats, context: Longs) -> Floats:
        """Return scores from the working scale; what is beyond a bound is the bound."""
        signed = self.sign[context] * z
        share = np.clip((expit(signed) - self.edge) / (1.0 - 2.0 * self.edge), 0.0, 1.0)
        return np.asarray(self.low[context] + self.width[context] * np.where(self.bounded[context], share, signed))

    def slope(self, z: Floats, context: Longs) -> Floats:
        """Return by how much a score changes with its working scale, without the sign."""
        p = expit(self.sign[context] * z)
        inner = np.where(self.bounded[context], p * (1.0 - p) / (1.0 - 2.0 * self.edge), 1.0)
        return np.asarray(self.width[context] * inner)


def guess_scale(scores: Floats, label: object) -> Scale:
    """Return the scale that the scores of a benchmark look like; raise where they look like mistaken per cents.

    >>> guess_scale(np.array([0.2, 1.0]), "x").name, guess_scale(np.array([20.0, 95.0]), "x").name
    ('proportion', 'percent')
    >>> guess_scale(np.array([1200.0, 1350.0]), "elo").name
    'real'
    """
    low, high = float(scores.min()), float(scores.max())
    if low >= 0.0 and high <= 1.0:
        return PROPORTION
    if low >= 0.0 and high <= 100.0:
        return PERCENT
    if low >= 0.0 and high <= NEARLY * 100.0 and np.median(scores) <= 100.0:
        raise ScoreError(
            f"scores of {label!r} look like per cents, but the largest is {high:g}: correct it, or name the scale, "
            f"scales={{{label!r}: 'real'}} or its bounds."
        )
    return REAL


def read_scale(given: Any, label: object) -> Scale:
    """Return a scale that was named: "percent", "proportion", "real" or (low, high)."""
    if isinstance(given, Scale):
        return given
    if isinstance(given, str) and given in NAMED:
        return NAMED[given]
    if isinstance(given, list | tuple) and len(given) == 2:
        low, high = float(given[0]), float(given[1])
        if np.isfinite([low, high]).all() and low < high:
            return Scale(low, high)
    raise ScaleError(f"scale {given!r} of {label!r} is none of 'percent', 'proportion', 'real' and (low, high).")


def choose_scales(
    labels: Sequence[Any], scores: Sequence[Floats], scales: Mapping[Any, Any] | str | None, lower: Iterable[Any]
) -> tuple[tuple[Scale, ...], list[str]]:
    """Return the scales of benchmarks, named or guessed from their scores, and a note on what was guessed.

    >>> found, notes = choose_scales(["a", "b"], [np.array([3.0, 50.0]), np.array([1200.0])], None, ())
    >>> [scale.name for scale in found], notes
    (['percent', 'real'], ['scales guessed: 1 percent, 1 real (b); scales= names others'])
    """
    named = dict.fromkeys(labels, scales) if isinstance(scales, str) else dict(scales or {})
    down = (lower,) if isinstance(lower, str) else tuple(lower)
    for label in (*named, *down):
        if label not in labels:
            raise ScaleError(f"a scale is named for {label!r}, which has no scores; {suggest_labels(label, labels)}")
    found: list[Scale] = []
    notes: list[str] = []
    guessed: dict[str, list[Any]] = {}
    for label, values in zip(labels, scores, strict=True):
        if label in named:
            scale = read_scale(named[label], label)
        else:
            scale = guess_scale(values, label) if values.size else PERCENT
            notes += _mixed_units(values, label)
            guessed.setdefault(scale.name, []).append(label)
        if values.size and np.abs(values).max() > LARGEST:
            raise ScoreError(
                f"a score of {label!r} is {values[np.argmax(np.abs(values))]:g}: give it in a larger unit."
            )
        if values.size and not (scale.low <= values.min() and values.max() <= scale.high):
            worst = values.max() if values.max() > scale.high else values.min()
            raise ScoreError(
                f"a score of {label!r} is {worst:g}, outside of its scale, {scale.low:g} to {scale.high:g}: correct "
                "it, or name another scale."
            )
        found.append(Scale(scale.low, scale.high, label not in down))
    usual = max(guessed, key=lambda name: len(guessed[name]), default="")
    words = [f"{len(some)} {name}" + ("" if name == usual else f" ({some_of(some)})") for name, some in guessed.items()]
    if words:
        notes.insert(0, f"scales guessed: {', '.join(words)}; scales= names others")
    return tuple(found), notes


def _mixed_units(values: Floats, label: object) -> list[str]:
    """Return a note where scores that count as per cents look like proportions, but for one or a few.

    >>> _mixed_units(np.array([0.8, 0.7, 1.2]), "x"), _mixed_units(np.array([0.8, 20.0, 30.0]), "x")
    (["scores of 'x' count as per cents, but most are at most 1 and the largest is 1.2: check their unit"], [])
    """
    if values.size < 2 or not (values.min() >= 0.0 and 1.0 < values.max() <= 100.0 and np.median(values) <= 1.0):
        return []
    return [
        f"scores of {label!r} count as per cents, but most are at most 1 and the largest is {values.max():g}: "
        "check their unit"
    ]


def scales_of_units(
    units: Mapping[Any, tuple[str, str]], scales: Mapping[Any, Any] | str | None, lower: Iterable[Any]
) -> tuple[Mapping[Any, Any] | str | None, tuple[Any, ...], list[str]]:
    """Return scales and labels where lower is better with names instead of headers, and notes on units in headers.

    Parameters
    ----------
    units : dict from name to header and unit
    scales, lower
        As a caller gave them, by name or by header.

    Examples
    --------
    >>> scales_of_units({"time": ("time (s)", "s")}, None, ["time (s)"])
    ({'time': 'real'}, ('time',), ['no bounds, by the unit in the header: time'])
    """
    names = {header: name for name, (header, _) in units.items()}
    down = tuple(names.get(label, label) for label in ((lower,) if isinstance(lower, str) else lower))
    costs = [name for name, (_, unit) in units.items() if unit in COSTS and name not in down]
    notes = [f"higher counts as better in {some_of(costs)}; lower_is_better= names others"] if costs else []
    if isinstance(scales, str):
        return scales, down, notes
    real = {name: "real" for name, (_, unit) in units.items() if unit in REAL_UNITS}
    unbounded = [name for name in real if name not in (scales or {}) and units[name][0] not in (scales or {})]
    notes += [f"no bounds, by the unit in the header: {some_of(unbounded)}"] if unbounded else []
    given = {names.get(label, label): scale for label, scale in (scales or {}).items()}
    return real | given or None, down, notes
