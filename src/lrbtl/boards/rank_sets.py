"""Rank sets that hold for all models in all categories at once, and tests of "among the top k".

For scores theta[a, u] with joint covariance over models and categories, let t_ab,u be the gap of a over b in category u
over its standard error. A pair is shown where t exceeds c, the quantile of the largest centred t over all pairs of all
categories, by the Gaussian multiplier bootstrap; pairs that were shown leave the maximum, and the rest is tested again
(step-down) until nothing more is shown. Then

    lower(a, u) = 1 + #{b shown above a in u},   upper(a, u) = d - #{b shown below a in u}

hold for all a and u at once with probability `level`. Multipliers that are normal make the bootstrap of a sum of
influence values exactly normal, with the covariance that estimates carry: that is what draws are made from.

A model is among the top k of a category unless k others are at least as good. Of any k such others one would have been
shown wrongly if the k-th smallest t of the model against the others exceeded the quantile of the largest centred t over
k of them, which is at most that over all others, and at most Bonferroni's for k. For "in every category" the largest
p-value counts: all of the tests must reject, and no correction is needed.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtr

from lrbtl.boards.ranking import level_ties, rank_interval, rank_scores
from lrbtl.data.frames import Frame
from lrbtl.data.labels import shown_context
from lrbtl.data.observations import Data
from lrbtl.errors import MethodError, TooLargeError, check_whole, listed, make_rng
from lrbtl.inference.always_valid import ONE_LOOK, Validity
from lrbtl.inference.analysis import Analysis, analyse
from lrbtl.inference.joint import covariance_factor, gap_variances, normal_quantile
from lrbtl.inference.targets import context_weights
from lrbtl.methods.base import RunOptions, named_options
from lrbtl.methods.standard_errors import tail_widening
from lrbtl.methods.targets import resolved_score
from lrbtl.tables import Framed, TextResult, shown_rows, text_table
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Bools, Floats, Longs, Seed

DRAWS = 5000
CHUNK = 1 << 22  # numbers of pairs times draws at a time
MOST_SCORES = 8000  # whose joint covariance is kept
ROWS_SHOWN = 40
ROUNDING = 1e-12  # share of the largest variance below which a gap does not vary


@dataclass(frozen=True, eq=False, repr=False)
class TopTest(TextResult, Framed):
    """Tests that models are among the top k; small p-values show that they are.

    Attributes
    ----------
    k : int
    models, categories : tuples
    pvalue : array (d1, C)
        Of "not among the top k of this category"; each test by itself.
    everywhere : array (d1,)
        Of "not among the top k of every category".
    sure, possible : arrays of bool (d1, C)
        Models that are among the top k, and those that may be, by the rank sets: all statements hold at once.
    level : float

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0)
    >>> top = lrbtl.rank_sets(lrbtl.simulate_battles(truth, 20_000, rng=1)).top(2)
    >>> top.pvalue.shape, bool((top.everywhere >= top.pvalue.max(axis=1)).all())
    ((6, 3), True)
    """

    k: int
    models: tuple[Any, ...]
    categories: tuple[Any, ...]
    pvalue: Floats
    everywhere: Floats
    sure: Bools
    possible: Bools
    level: float

    def to_dict(self) -> dict[str, list[Any]]:
        """Return columns category, model, k, pvalue, sure, possible; category "every" has the tests over all."""
        names = [*(shown_context(label) for label in self.categories), "every"]
        parts = {
            "pvalue": (self.pvalue, self.everywhere),
            "sure": (self.sure, self.sure.all(axis=1)),
            "possible": (self.possible, self.possible.all(axis=1)),
        }
        found = {name: np.column_stack(part).T.reshape(-1).tolist() for name, part in parts.items()}
        category = [name for name in names for _ in self.models]
        model = [str(label) for _ in names for label in self.models]
        return {"category": category, "model": model, "k": [self.k] * len(model), **found}

    def to_json(self) -> str:
        """Return `to_dict` as JSON."""
        return json.dumps({"level": self.level, **self.to_dict()})

    def __repr__(self) -> str:
        shown = (self.pvalue < 1 - self.level).sum(axis=0)
        lines = [f"Among the top {self.k}, each test at {100 * self.level:.4g}%; all at once: surely, possibly"]
        rows = [
            [shown_context(label), str(count), str(sure), str(possible)]
            for label, count, sure, possible in zip(
                self.categories, shown, self.sure.sum(axis=0), self.possible.sum(axis=0), strict=True
            )
        ]
        both = self.sure.all(axis=1).sum(), self.possible.all(axis=1).sum()
        rows.append(["every", str((self.everywhere < 1 - self.level).sum()), *map(str, both)])
        return "\n".join([*lines, text_table(["category", "shown", "surely", "possibly"], rows)])


@dataclass(frozen=True, eq=False, repr=False)
class RankSets(TextResult, Framed):
    """Ranks of all models in all categories with sets that hold for all of them at once.

    Attributes
    ----------
    models, categories : tuples
    score, rank, lower, upper : arrays (d1, C)
        Scores in logits, ranks by them, and the smallest and largest rank of each set. A model without a score in a
        category has rank 0 and the set of all ranks.
    level : float
    critical : float
        Standard errors beyond which a gap is shown, after the last step.
    method : str

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0)
    >>> sets = lrbtl.rank_sets(lrbtl.simulate_battles(truth, 20_000, rng=1))
    >>> sets.rank.shape, bool((sets.lower <= sets.rank).all() and (sets.rank <= sets.upper).all())
    ((6, 3), True)
    >>> sets.top(1).pvalue.shape
    (6, 3)
    """

    models: tuple[Any, ...]
    categories: tuple[Any, ...]
    score: Floats
    rank: Longs
    lower: Longs
    upper: Longs
    level: float
    critical: float
    method: str
    _gaps: "_Gaps" = field(repr=False)

    def top(self, k: int) -> TopTest:
        """Return tests that models are among the top k of each category, and of every one."""
        check_whole(k, "k")
        pvalue = self._gaps.top_pvalues(int(k))
        return TopTest(
            int(k),
            self.models,
            self.categories,
            pvalue,
            pvalue.max(axis=1),
            self.upper <= k,
            self.lower <= k,
            self.level,
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """Return columns category, model, score, rank, rank_lower, rank_upper as plain lists; None for no score."""
        score = [None if np.isnan(x) else float(x) for x in self.score.T.reshape(-1)]
        ranks = {"rank": self.rank, "rank_lower": self.lower, "rank_upper": self.upper}
        return {
            "category": [shown_context(label) for label in self.categories for _ in self.models],
            "model": [str(label) for _ in self.categories for label in self.models],
            "score": score,
            **{name: each.T.reshape(-1).tolist() for name, each in ranks.items()},
        }

    def to_json(self) -> str:
        """Return `to_dict` with level, method and critical value as JSON."""
        return json.dumps({"level": self.level, "method": self.method, "critical": self.critical, **self.to_dict()})

    def __repr__(self) -> str:
        order = np.argsort(np.where(self.rank > 0, self.rank, len(self.models) + 1).mean(axis=1), kind="stable")
        head, tail = shown_rows(len(order), ROWS_SHOWN)
        rows = [
            [str(self.models[a]), *(f"{self.lower[a, u]}-{self.upper[a, u]}" for u in range(len(self.categories)))]
            for a in order[[*head, *tail]]
        ]
        first = f"Rank sets of {len(self.models)} models in {len(self.categories)} categories, {self.method} method:"
        return "\n".join(
            [
                f"{first} all hold at once at {100 * self.level:.4g}%, {self._gaps.valid.words()}",
                text_table(["model", *map(shown_context, self.categories)], rows),
            ]
        )


@named_options
@one_blas_thread
def rank_sets(
    battles: Data | Frame | Analysis,
    *,
    categories: Iterable[Any] | None = None,
    level: float = 0.95,
    draws: int = DRAWS,
    **options: Unpack[RunOptions],
) -> RankSets:
    """Return rank sets that hold for all models in all categories at once.

    Parameters
    ----------
    battles : Battles, data frame or Analysis
    categories : list of labels, optional
        All contexts by default; None in the list is the mean over all contexts.
    level : float
        Probability that all sets hold.
    draws : int
        Of the bootstrap.
    **options
        Of `analyse`, where votes are given; `rng` is also that of the bootstrap.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((6, 3), 1, scale=2, rng=0)
    >>> sets = lrbtl.rank_sets(lrbtl.simulate_battles(truth, 20_000, rng=1), categories=[0, 2])
    >>> sets.categories
    (0, 2)
    """
    if isinstance(battles, Analysis) and (lost := [name for name in options if name != "rng"]):
        raise MethodError(f"options {', '.join(lost)} have no effect on an analysis that is at hand: leave them out.")
    analysis = battles if isinstance(battles, Analysis) else analyse(battles, **options)
    check_whole(draws, "draws", 100)
    normal_quantile(level)
    data = analysis.battles
    given = [] if categories is None else listed(categories, "categories", "give a list of labels")
    labels = [data.context_label(u) for u in range(data.n_contexts)] if categories is None else given
    if not labels:
        raise MethodError("no categories were given: name at least one, or leave them out for all.")
    gaps = _Gaps.of(
        analysis, np.stack([context_weights(data, None, label) for label in labels]), draws, options.get("rng", 0)
    )
    shown, critical = gaps.shown(level)
    d1, C = gaps.score.shape
    rank, lower, upper = np.zeros((d1, C), dtype=np.int64), np.ones((d1, C), dtype=np.int64), np.full((d1, C), d1)
    for u in range(C):
        here = np.flatnonzero(gaps.known[:, u])
        precision = gaps.precision[u][gaps.precision[u] > 0]
        rank[here, u] = rank_scores(level_ties(gaps.score[here, u], 1.0 / precision))
        low, high = rank_interval(shown[u][np.ix_(here, here)])
        lower[here, u], upper[here, u] = low, high + d1 - here.size
    return RankSets(
        tuple(data.models), tuple(labels), gaps.score, rank, lower, upper, float(level), critical, analysis.method, gaps
    )


@dataclass(frozen=True, eq=False)
class _Gaps:
    """Gaps of all pairs of models in all categories: estimates, errors and bootstrap draws of the scores."""

    score: Floats  # (d1, C), NaN for none
    known: Bools  # (d1, C)
    precision: Floats  # (C, d1, d1): 1 / se of each gap, 0 where it does not vary or is not known
    noise: Floats  # (C, d1, d1): variance noise of the looser of the two scores
    draws: Floats  # (B, C, d1) centred draws of the scores
    valid: Validity = ONE_LOOK

    @classmethod
    def of(cls, analysis: Analysis, weights: Floats, draws: int, rng: Seed) -> "_Gaps":
        """Return the gaps of an analysis in categories with weights (C, D) of contexts."""
        d1, C = analysis.battles.shape[0], len(weights)
        if d1 * C > MOST_SCORES:
            raise TooLargeError(
                f"{d1} models in {C} categories are more than {MOST_SCORES:,} scores, whose joint covariance is too "
                "large: name fewer categories, or select models."
            )
        placed = np.stack([analysis.placed(row) for row in weights])
        if not placed.any():
            nothing = np.zeros((C, d1, d1))
            return cls(np.full((d1, C), np.nan), placed.T, nothing, nothing, np.zeros((draws, C, d1)))
        targets = [resolved_score(int(a), weights[u], placed[u]) for u, a in zip(*np.nonzero(placed), strict=True)]
        found = analysis.run.moments(targets)
        assert found.cov is not None
        good = np.isfinite(found.values) & np.isfinite(found.se)
        score, loose = np.full((C, d1), np.nan), np.zeros((C, d1))
        where = tuple(each[good] for each in np.nonzero(placed))
        score[where], loose[where] = found.values[good], found.variance_noise[good]
        cov = np.zeros((C, d1, C, d1))
        flat = np.ravel_multi_index(where, (C, d1))
        cov.reshape(C * d1, C * d1)[np.ix_(flat, flat)] = found.cov[np.ix_(good, good)]
        factor = covariance_factor(cov.reshape(C * d1, C * d1))
        normal = make_rng(rng).standard_normal((draws, factor.shape[1]))
        known = np.isfinite(score)
        variance = np.stack([gap_variances(cov[u, :, u]) for u in range(C)])
        varies = known[:, :, None] & known[:, None] & (variance > ROUNDING * max(float(cov.max()), 1e-300))
        precision = np.where(varies, 1.0 / np.sqrt(np.where(varies, variance, 1.0)), 0.0)
        noise = np.maximum(loose[:, :, None], loose[:, None])
        return cls(
            score.T,
            known.T,
            precision,
            noise,
            (normal @ factor.T).reshape(draws, C, d1),
            Validity.of(analysis.provenance),
        )

    def statistics(self, u: int) -> Floats:
        """Return t of a over b in a category, (d1, d1); 0 where a gap is not known."""
        score = np.nan_to_num(self.score[:, u])
        return np.asarray((score[:, None] - score) * self.precision[u])

    def shown(self, level: float) -> tuple[Bools, float]:
        """Return which gaps are shown in each category, (C, d1, d1), by step-down, and the last critical value."""
        t = np.stack([self.statistics(u) for u in range(len(self.precision))])
        active, shown = self.precision > 0, np.zeros(t.shape, dtype=np.bool_)
        while True:
            critical = float(np.quantile(self.maxima(active), level)) if active.any() else 0.0
            critical = self.valid.joint(critical, level, int(active.sum()))
            more = active & (t > critical * tail_widening(critical, self.noise))
            shown |= more
            active &= ~more
            if not more.any() or not active.any():
                return shown, critical

    def maxima(self, active: Bools) -> Floats:
        """Return the largest centred t over active pairs (C, d1, d1) in each draw, (B,)."""
        out = np.full(len(self.draws), -np.inf)
        d1 = self.draws.shape[2]
        step = max(1, CHUNK // d1**2)
        for u, pairs in enumerate(active):
            if not pairs.any():
                continue
            scale = np.where(pairs, self.precision[u], 0.0)
            for first in range(0, len(out), step):
                part = slice(first, first + step)
                z = self.draws[part, u]
                values = (z[:, :, None] - z[:, None]) * scale
                values[:, ~pairs] = -np.inf
                np.maximum(out[part], values.max(axis=(1, 2)), out=out[part])
        return out

    def top_pvalues(self, k: int) -> Floats:
        """Return p-values of "k others are at least as good" for each model and category, (d1, C)."""
        d1, C = self.score.shape
        out = np.ones((d1, C))
        if k >= d1:
            return np.zeros((d1, C))
        for u in range(C):
            t = self.statistics(u)
            for a in np.flatnonzero(self.known[:, u]):
                others = np.flatnonzero(self.precision[u, a] > 0)
                place = k - (d1 - 1 - others.size)  # others without a statistic count as better
                if place < 1:
                    continue
                critical = np.partition(t[a, others], place - 1)[place - 1]
                critical /= tail_widening(float(max(critical, 0.0)), self.noise[u, a, others].max())
                critical = float(self.valid.one_look(np.array(critical))) if critical > 0.0 else critical
                z = (self.draws[:, u, [a]] - self.draws[:, u, others]) * self.precision[u, a, others]
                over_all = (1 + np.sum(z.max(axis=1) >= critical)) / (1 + len(z))
                out[a, u] = min(1.0, over_all, place * ndtr(-critical))
        return out
