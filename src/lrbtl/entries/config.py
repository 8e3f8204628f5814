"""Every constant of the factor model that changes an answer."""

from dataclasses import dataclass


@dataclass(frozen=True)
class FactorConfig:
    """Constants of the factor model and of its sampler; variances are in units of the scores' own.

    Attributes
    ----------
    n_factors : int
        Most shared factors; the sizes of those that are not there shrink to nothing.
    n_draws, n_warmup, thin : int
        Draws that are kept, sweeps before the first, and sweeps between two.
    prior_degrees : float
        What the prior of each variance of what features say is worth, in rows.
    loading_size, mean_size : float
        Prior guess of the variance of loadings, and of that of benchmark means; of heavy tails.
    centre_size, unit_size : float
        Prior variance of the mean of real scores once their own mean is taken off, and of the logarithm of the unit
        they are measured in, relative to their own spread.
    feature_size : float
        Prior guess of the variance of a factor that a feature accounts for.
    noise_size, noise_degrees : float
        Prior guess of the variance of residuals, and what it is worth in scores.
    power : float
        Prior density near zero of variances of loadings and, where noise is known or estimated, of deviations, as a
        power: 1/2 is that of a half Cauchy root, 0 would be flat in the logarithm. Small ones let factors and
        deviations that are not there have no size.
    degrees : pair of float
        Least and most degrees of freedom, of single residuals, of models and of benchmarks; flat in their logarithm.
    beyond : float
        Prior probability that factors say nothing of a share of no items or of all, as where a model can do none.
    least_repeats : int
        Repeated scores of the same entry from which the variance of the noise is estimated; with fewer, its share of
        the residual variance is unknown and averaged over (0, 1).
    """

    n_factors: int = 6
    n_draws: int = 500
    n_warmup: int = 250
    thin: int = 1
    prior_degrees: float = 3.0
    loading_size: float = 0.05
    mean_size: float = 0.5
    centre_size: float = 9.0
    unit_size: float = 2.0
    feature_size: float = 0.1
    noise_size: float = 0.05
    noise_degrees: float = 2.0
    power: float = 0.2
    degrees: tuple[float, float] = (1.0, 100.0)
    beyond: float = 0.5
    least_repeats: int = 10
