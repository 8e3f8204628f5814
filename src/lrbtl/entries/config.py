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
        What the prior of each variance of loadings is worth, in benchmarks.
    loading_size, mean_size : float
        Prior guess of the variance of loadings, and of that of benchmark means.
    feature_size : float
        Prior guess of the variance of a factor that a feature accounts for.
    noise_size, noise_degrees : float
        Prior guess of the variance of residuals, and what it is worth in scores.
    degrees : tuple of float
        Values among which degrees of freedom are sampled: of single residuals, of models, of benchmarks.
    least_repeats : int
        Repeated scores of the same entry from which the variance of the noise is estimated; with fewer, its share of
        the residual variance is unknown and averaged over (0, 1).
    """

    n_factors: int = 4
    n_draws: int = 500
    n_warmup: int = 250
    thin: int = 1
    prior_degrees: float = 3.0
    loading_size: float = 0.05
    mean_size: float = 0.5
    feature_size: float = 0.1
    noise_size: float = 0.05
    noise_degrees: float = 2.0
    degrees: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 25.0, 60.0)
    least_repeats: int = 10
