"""The walk along time against one dense matrix of all periods."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from lrbtl.fitting.random_walk import STIFF, Prior, TimedVotes, find_path, fit_once, fit_walks


def make_votes(n_covariates=0, seed=0):
    """Votes of 5 models over 4 periods, of which the last is new in the third; one period is empty."""
    rng = np.random.default_rng(seed)
    present = np.array([3, 3, 5, 5])
    period = np.sort(rng.choice([0, 2, 3], 400))
    pair = np.array([rng.permutation(present[t])[:2] for t in period])
    slopes = rng.standard_normal((400, n_covariates))
    y = rng.choice([0.0, 0.5, 1.0], 400, p=[0.3, 0.2, 0.5])
    y = np.where(pair[:, 0] < pair[:, 1], y, 1 - y)
    return TimedVotes(period, pair[:, 0], pair[:, 1], y, rng.integers(1, 4, 400).astype(float), slopes, present)


class Dense:
    """Newton's method with the precision of all states written out."""

    def __init__(self, votes, prior):
        self.votes, self.prior = votes, prior
        self.slot = {}
        for t, n in enumerate(votes.present):
            for a in range(n):
                self.slot[t, a] = len(self.slot)
        N, k = len(self.slot), votes.slopes.shape[1]
        self.X = np.zeros((len(votes.y), N + k))
        for i, (t, a, b) in enumerate(zip(votes.period, votes.a, votes.b, strict=True)):
            self.X[i, self.slot[t, a]] += 1
            self.X[i, self.slot[t, b]] -= 1
        self.X[:, N:] = votes.slopes
        self.Q = np.zeros((N + k, N + k))
        before = 0
        for t, n in enumerate(votes.present):
            for a in range(before, n):
                self.Q[self.slot[t, a], self.slot[t, a]] += 1 / prior.spread**2
            if before:
                moves = np.zeros((before, N + k))
                for a in range(before):
                    moves[a, self.slot[t, a]], moves[a, self.slot[t - 1, a]] = 1, -1
                inside = (np.eye(before) + STIFF / before * np.ones((before, before))) / prior.step**2
                self.Q += moves.T @ inside @ moves
            before = n
        self.N, x = N, np.zeros(N + k)
        weight = votes.count / prior.dispersion
        for _ in range(50):
            p = expit(self.X @ x)
            self.H = self.X.T @ (self.X * (weight * p * (1 - p))[:, None])
            x = x + np.linalg.solve(self.H + self.Q, self.X.T @ (weight * (votes.y - p)) - self.Q @ x)
        self.x, self.cov = x, np.linalg.inv(self.H + self.Q)
        eta = self.X @ x
        log_lik = weight @ (votes.y * np.log(expit(eta)) + (1 - votes.y) * np.log(expit(-eta)))
        log_prior = 0.5 * np.linalg.slogdet(self.Q[:N, :N])[1] - 0.5 * x @ self.Q @ x
        self.log_evidence = log_lik + log_prior - 0.5 * np.linalg.slogdet(self.H + self.Q)[1]


@pytest.mark.parametrize("n_covariates", [0, 2])
def test_mode_evidence_and_covariances_are_those_of_the_dense_matrix(n_covariates):
    votes, prior = make_votes(n_covariates), Prior(0.8, 0.2, 0.9)
    dense = Dense(votes, prior)
    path = find_path(votes, prior, np.zeros((4, 5)), np.zeros(n_covariates))
    at = np.array([[dense.slot.get((t, a), -1) for a in range(5)] for t in range(4)])
    known = at >= 0
    np.testing.assert_allclose(path.scores[known], dense.x[at[known]], atol=1e-7)
    np.testing.assert_allclose(path.slopes, dense.x[dense.N :], atol=1e-7)
    assert path.log_evidence == pytest.approx(dense.log_evidence, abs=1e-6)
    ends = np.array([3, 2, 0, 3, 2])
    seen = []
    for t, own, cross in path.covariances(ends):
        seen.append(t)
        here = at[t, : len(own)]
        np.testing.assert_allclose(own, dense.cov[np.ix_(here, here)], atol=1e-8)
        for a in np.flatnonzero(ends >= t):
            np.testing.assert_allclose(cross[:, a], dense.cov[here, at[ends[a], a]], atol=1e-8)
    assert seen == [3, 2, 1, 0]
    np.testing.assert_allclose(path.model_covariance(1, (0, 2)), dense.cov[np.ix_(at[:3, 1], at[:3, 1])], atol=1e-8)
    weights = np.where(known, np.random.default_rng(1).random((4, 5)), 0.0)
    expected = dense.cov[:, at[known]] @ weights[known]
    np.testing.assert_allclose(path.covariance_with(weights)[known], expected[at[known]], atol=1e-8)


def test_steps_of_the_models_present_sum_to_zero():
    path = find_path(make_votes(), Prior(1.0, 0.3), np.zeros((4, 5)), np.zeros(0))
    np.testing.assert_allclose(np.diff(path.scores[:, :3], axis=0)[0].sum(), 0, atol=1e-3)
    np.testing.assert_allclose(np.diff(path.scores, axis=0)[2].sum(), 0, atol=1e-3)


def test_steps_are_chosen_by_their_evidence():
    votes, seen = make_votes(), []

    def choose(steps, evidence):
        seen.extend(zip(steps, evidence, strict=True))
        return steps[[int(np.argmax(evidence))]]

    (best,) = fit_walks(votes, choose)
    assert best.log_evidence == pytest.approx(max(found for _, found in seen), abs=1e-5)
    assert len(seen) > 2 and [step for step, _ in seen] == sorted(step for step, _ in seen)
    spread = fit_once(votes).prior.spread
    assert best.prior.spread == spread
    for factor in (0.7, 1.4):
        other = Prior(factor * spread, 1.0, best.prior.dispersion)
        tried = find_path(votes.together(), other, np.zeros((1, 5)), np.zeros(0))
        assert tried.log_evidence < fit_once(votes).log_evidence


def test_one_period_is_one_board():
    votes = make_votes().together()
    (path,) = fit_walks(votes, lambda steps, evidence: steps)
    np.testing.assert_allclose(path.scores, fit_once(votes).scores)


@pytest.mark.parametrize("n_covariates", [0, 2])
def test_influences_are_what_one_vote_more_does(n_covariates):
    votes = make_votes(n_covariates).together()
    prior = Prior(0.8, 1.0, 0.7)
    path = find_path(votes, prior, np.zeros((1, 5)), np.zeros(n_covariates))
    found = path.vote_influences(np.array([3, 120]))
    for row, cell in zip(found, (3, 120), strict=True):
        more, less = (
            find_path(
                replace(votes, count=votes.count + step * (np.arange(400) == cell)),
                prior,
                0 * path.scores,
                0 * path.slopes,
            ).scores[0]
            for step in (0.5, -0.5)
        )
        np.testing.assert_allclose(row, more - less - np.mean(more - less), atol=1e-2 * np.abs(row).max())
