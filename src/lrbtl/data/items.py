"""Results per item: as votes, where the right model beats the wrong one, and as accuracies with their noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from lrbtl.data.encode import Coded, encode, read_frame, used_codes
from lrbtl.data.item_logs import ItemLog, as_share
from lrbtl.data.labels import sort_labels
from lrbtl.data.scores import as_numbers, plain_values
from lrbtl.errors import EmptyDataError, ScoreError, TooFewModelsError
from lrbtl.typing import AnyInts, Floats, Longs

TINY = 1e-9  # of a variance of shares, where it would be zero
POOLED_ITEMS = 20.0  # items that the mean of other benchmarks is worth
LARGEST = 8.0  # ability or difficulty of a Rasch model, in logits


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Results per item, one row per model and item.

    Attributes
    ----------
    model, item : arrays (n,)
        Codes; items of different contexts are different items.
    share : array (n,)
        Share of right answers.
    samples : array (n,)
        Answers behind each share.
    models : tuple
    contexts : list of tuples
        Labels of the contexts of each item, mode by mode.
    item_labels : list
        Label of each item.
    """

    model: Longs
    item: Longs
    share: Floats
    samples: Floats
    models: tuple[Any, ...]
    contexts: list[list[Any]]
    item_labels: list[Any]

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.item_labels)


def read_items(log: ItemLog) -> ItemTable:
    """Return results per item; several rows of a model and item are samples of the same item."""
    model, item, correct = log.columns.model, log.columns.item, log.columns.correct
    contexts, samples = log.columns.contexts, log.columns.samples
    numbers = [correct, *([] if samples is None else [samples])]
    columns, times = read_frame(log.frame, [model, item, *contexts, *numbers], numbers, grouped=False)
    share = _shares(columns[correct], correct)
    if not share.size:
        raise EmptyDataError("there are no rows; give at least one result.")
    if not np.all((share >= 0.0) & (share <= 1.0)):
        row = int(np.argmin((share >= 0.0) & (share <= 1.0)))
        raise ScoreError(
            f"{correct} is {share[row]:g} in row {row}: give 0 or 1, true or false, or the share of right samples."
        )
    n = np.ones(share.size) if samples is None else as_numbers(columns[samples], samples)
    if not np.all(n >= 1):
        raise ScoreError(f"{samples} must be there and at least 1 in each row.")
    n = n if times is None else n * times
    who, (names,) = _codes([encode(columns[model], model)])
    if len(names) < 2:
        raise TooFewModelsError(f"only one model, {names[0]!r}, occurs; comparisons need two.")
    coded = [encode(columns[name], name) for name in (*contexts, item)]
    where, labels = _codes(coded)
    total = np.zeros((2, len(names) * len(labels[0])))
    entry = who * len(labels[0]) + where
    for k, values in enumerate((n, n * share)):
        total[k] = np.bincount(entry, values, total.shape[1])
    kept = np.flatnonzero(total[0])
    return ItemTable(
        kept // len(labels[0]),
        kept % len(labels[0]),
        total[1, kept] / total[0, kept],
        total[0, kept],
        tuple(names),
        list(labels[:-1]),
        labels[-1],
    )


def _shares(column: Any, name: str) -> Floats:
    """Return shares of right answers; words such as "C" and "false" are shares too."""
    values = plain_values(column)
    return as_numbers(values if isinstance(values, np.ndarray) else [as_share(value) for value in values], name)


def item_battles(table: ItemTable) -> tuple[AnyInts, AnyInts, Floats, Floats, AnyInts]:
    """Return first model, second model, outcome, weight and item of each battle.

    Of models a and b with shares p and q of right answers to an item, a wins with weight p (1 - q) and loses with
    weight (1 - p) q, both times 2 / m where m models met the item: then its pairs weigh as much as its answers.
    """
    d1 = len(table.models)
    share = np.full((table.n_items, d1), np.nan)
    share[table.item, table.model] = table.share
    met = np.sum(~np.isnan(share), axis=1)
    parts: list[tuple[AnyInts, ...]] = []
    for a in range(d1 - 1):
        p, q = share[:, a, None], share[:, a + 1 :]
        for weight, outcome in ((p * (1.0 - q), 1.0), ((1.0 - p) * q, 0.0)):
            item, b = np.nonzero(np.nan_to_num(weight) > 0)
            each = 2.0 * weight[item, b] / met[item]
            parts.append((np.full(item.size, a), b + a + 1, np.full(item.size, outcome), each, item))
    first, second, y, weight, item = (np.concatenate(column) for column in zip(*parts, strict=True))
    if not first.size:
        raise EmptyDataError("no two models differ on any item they share: which is better is not identified.")
    return first, second, y, weight, item


def _codes(columns: Sequence[Coded]) -> tuple[Longs, list[list[Any]]]:
    """Return codes of distinct rows of some columns, and the labels of each code, column by column."""
    parts, labels = [], []
    for coded in columns:
        used = used_codes(coded)
        names = sort_labels(coded.values(used), "labels")
        place = {name: k for k, name in enumerate(names)}
        code = np.zeros(len(coded.labels), dtype=np.int64)
        code[used] = [place[name] for name in coded.values(used)]
        parts.append(code[np.asarray(coded.codes)])
        labels.append(names)
    distinct, row = np.unique(np.stack(parts), axis=1, return_inverse=True)
    return row.reshape(-1), [[names[k] for k in codes] for names, codes in zip(labels, distinct, strict=True)]


# ------------------------------------------------------------------------------
# Accuracies, and how far chance moves them: of the samples, of the items, and of what all models share.
# ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Accuracies:
    """Accuracies of models on one benchmark, as shares, and what their noise is made of.

    Attributes
    ----------
    share : array (d1,)
        Mean over items; NaN for models that met none.
    answers, items : arrays (d1,)
        Numbers of answers and of items.
    inside : array (d1,)
        Variance of the share from samples of the same items.
    own : float
        Variance over items of what a model does not share, over p (1 - p).
    common : float
        What models share: the variance of the easiness of items, in logits.
    """

    share: Floats
    answers: Floats
    items: Floats
    inside: Floats
    own: float
    common: float

    def own_variance(self, own: float, sampled: float) -> Floats:
        """Return the variance of each model's own noise in its share, (d1,).

        Variance of samples, plus (1 - sampled) p (1 - p) own / n. At shares of 0 and 1, half an answer more or less
        is added.
        """
        p = np.nan_to_num(self.share)
        answers = np.maximum(self.answers, 1.0)
        q = (answers * p + 0.5) / (answers + 1.0)
        spread, items = q * (1.0 - q), np.maximum(self.items, 1.0)
        drawn = (1.0 - sampled) / items * spread * own
        edge = (spread - p * (1.0 - p)) / np.where(sampled < 1.0, items, answers)
        return np.asarray(self.inside + drawn + np.maximum(edge, 0.0) + TINY)


def accuracies(right: Floats, samples: Floats) -> Accuracies:
    """Return accuracies of shares of right answers (items, models), NaN for items that a model did not meet.

    Parameters
    ----------
    right, samples : arrays (items, models)
        Shares of right answers, and how many answers there were.

    Notes
    -----
    Several samples of an item with share q vary by q (1 - q) / (samples - 1), a single one by p (1 - p) with p from a
    Rasch model. An item's easiness moves all models: x_il = p_i + p_i (1 - p_i) b_l, with b_l by least squares. What
    is left varies by samples and by p_i (1 - p_i) own.
    """
    seen = ~np.isnan(right)
    items = seen.sum(axis=0).astype(np.float64)
    n, p = np.maximum(items, 1.0), rasch(right)
    share = np.where(items > 0, np.where(seen, right, 0.0).sum(axis=0) / n, np.nan)
    answers = np.where(seen, samples, 0.0).sum(axis=0)
    times, q = np.where(seen, samples, 1.0), np.where(seen, right, 0.0)
    noise = np.where(times > 1.0, q * (1.0 - q) / np.maximum(times - 1.0, 1.0), p * (1.0 - p))
    noise = np.where(seen, noise, 0.0)
    inside = noise.sum(axis=0) / n
    away = np.where(seen, right - np.nan_to_num(share), 0.0)
    size = np.where(seen, np.nan_to_num(share * (1.0 - share)), 0.0)
    weight = np.maximum((size**2).sum(axis=1), TINY)
    easy = (size * away).sum(axis=1) / weight
    rest = away - size * easy[:, None]
    degrees = max(float(seen.sum() - len(weight) - np.count_nonzero(items)), 1.0) / max(float(seen.sum()), 1.0)
    own = max(float((rest**2).sum() / degrees - noise.sum()), 0.0) / max(float(size.sum()), TINY)
    chance = (size**2 * (noise + size * own)).sum(axis=1) / weight**2
    known = weight > TINY
    common = float((easy**2 - chance)[known].sum()) / max(float(np.count_nonzero(known)) - 1.0, 1.0)
    return Accuracies(share, answers, items, inside / n, min(own, 1.0), max(common, 0.0))


def pooled(found: Sequence[Accuracies]) -> list[tuple[float, float]]:
    """Return `own` and `common` of benchmarks, those of few items drawn to the mean of all."""
    n = np.array([float(each.items.max()) for each in found])
    values = np.array([(each.own, each.common) for each in found])
    mean = n @ values / n.sum()
    weight = (n / (n + POOLED_ITEMS))[:, None]
    return [(float(x), float(y)) for x, y in weight * values + (1.0 - weight) * mean]


def rasch(right: Floats, rounds: int = 40, ridge: float = 0.1) -> Floats:
    """Return probabilities expit(theta_i - b_l) fitted to shares (items, models), NaN where nothing was seen.

    Newton steps of abilities and of difficulties in turn, with a ridge that keeps both finite.

    >>> rasch(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])).round(1).tolist()[1]
    [1.0, 0.8]
    """
    seen = ~np.isnan(right)
    y = np.where(seen, right, 0.0)
    theta, b = np.zeros(right.shape[1]), np.zeros(right.shape[0])
    for _ in range(rounds):
        p = expit(theta - b[:, None])
        theta = theta + (np.where(seen, y - p, 0.0).sum(axis=0) - ridge * theta) / (
            np.where(seen, p * (1 - p), 0.0).sum(axis=0) + ridge
        )
        theta = np.clip(theta, -LARGEST, LARGEST)
        p = expit(theta - b[:, None])
        b = b - (np.where(seen, y - p, 0.0).sum(axis=1) + ridge * b) / (
            np.where(seen, p * (1 - p), 0.0).sum(axis=1) + ridge
        )
        b = np.clip(b, -LARGEST, LARGEST)
    return np.asarray(expit(theta - b[:, None]))
