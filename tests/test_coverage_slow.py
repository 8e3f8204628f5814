"""Coverage of the intervals of all scores, simulated."""

import numpy as np
import pytest

import lrbtl

N_REPLICATIONS = 200
SHAPE, RANK, N_BATTLES = (12, 6), 2, 12_000


@pytest.mark.slow
@pytest.mark.parametrize("method", ["efficient", "mle"])
def test_intervals_of_all_scores_cover(method):
    truth = lrbtl.simulate_scores(SHAPE, RANK, scale=2.0, rng=0)
    shares = np.empty(N_REPLICATIONS)
    for k in range(N_REPLICATIONS):
        battles = lrbtl.simulate_battles(truth, N_BATTLES, rng=1000 + k)
        est = lrbtl.infer(battles, lrbtl.all_scores(), rank=RANK, n_folds=5, method=method)
        low, high = est.conf_int(level=0.95).T
        shares[k] = np.mean((low <= truth.ravel()) & (truth.ravel() <= high))
    error = shares.std(ddof=1) / np.sqrt(N_REPLICATIONS)  # scores of one replication are correlated
    print(f"{method}: {shares.mean():.4f} ± {error:.4f}")
    assert abs(shares.mean() - 0.95) < 3 * error
