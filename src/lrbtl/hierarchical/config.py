"""Every number that changes an answer of the default method, with its unit and where it comes from.

`benchmarks/ablation.py` has a row for each field; for `feature_size` run `benchmarks/features.py votes --feature-size`.
"""

from dataclasses import dataclass, fields
from math import inf

from lrbtl.errors import MethodError


@dataclass(frozen=True)
class HierarchicalConfig:
    """Settings of the hierarchical method; the defaults are for all logs.

    Attributes
    ----------
    design_covariates : bool
        Whether the pairings inform the prior of levels: order along the meeting graph, traffic.
    bends : int
        Hermite polynomials that may bend the order of the meeting graph, from degree 2 on.
    feature_size : float
        Prior guess of the variance of levels that a feature accounts for, over what none accounts for; 0 ignores them.
    level_freedom : tuple of float
        Degrees of freedom of the laws of levels that are averaged over; inf is normal.
    largest_spread : float
        Most that the spread s of levels may be, in logits: votes that one model won all know no end of it.
    expectation_from : float
        Effective parameters per vote from which scores of votes are averaged over the posterior, else at the mode.
    sure_size : float
        Relative error of s or tau below which one value stands for its distribution.
    excess_reject, excess_accept : float
        Standard deviations of noise above which a factor gets some weight, and all of it.
    excess_hidden : float
        Reduction of the first of these under matchmaking by strength, where votes have little information on factors.
    largest_rank : int
        Most shared factors.
    least_weight : float
        Weight below which a number of factors is left out of the average.
    residual_clip : float
        Standard deviations beyond which a residual counts as an outlier, not as part of a factor.
    effect_at_zero : float
        Prior probability that levels of a crossed context mode share nothing.
    outliers : bool
        Whether single entries may be outliers.
    outlier_size : float
        Standard deviation of an outlier, in standard deviations of all scores.
    outlier_freedom : float
        Degrees of freedom of its law.
    outliers_per_model : float
        Outliers that a model is expected to have.

    Examples
    --------
    >>> import lrbtl
    >>> battles = lrbtl.Battles.from_arrays(["x", "y", "x"], ["y", "z", "z"], [1, 1, 1], counts=[30, 20, 25])
    >>> config = lrbtl.HierarchicalConfig(design_covariates=False)
    >>> lrbtl.analyse(battles, config=config).method
    'hierarchical'
    """

    design_covariates: bool = True
    bends: int = 6
    feature_size: float = 0.1
    level_freedom: tuple[float, ...] = (inf, 3.0)
    largest_spread: float = 6.0
    expectation_from: float = 0.02
    sure_size: float = 0.05
    excess_reject: float = 0.5
    excess_accept: float = 3.0
    excess_hidden: float = 1.25
    largest_rank: int = 8
    least_weight: float = 0.12
    residual_clip: float = 2.5
    effect_at_zero: float = 0.1
    outliers: bool = True
    outlier_size: float = 0.6
    outlier_freedom: float = 4.0
    outliers_per_model: float = 0.5

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            numbers = value if isinstance(value, tuple) else (value,)
            if not numbers or not all(isinstance(x, int | float) and x >= 0 for x in numbers):
                raise MethodError(f"HierarchicalConfig({item.name}={value!r}): give numbers that are not negative.")
        if any(x <= 2 for x in self.level_freedom):
            raise MethodError(f"level_freedom={self.level_freedom!r}: laws of levels need a variance, so more than 2.")
