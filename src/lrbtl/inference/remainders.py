"""Where the error of one-step estimates comes from, in simulations: the terms of the paper's proof.

psi_hat - psi = (P_n - P) phi* + R_emp^H + R_emp^eta + R_proj + R_bias^H + R_cancel [Li26, eq. decomp_three,
eq. Remp_split, eq. Rbias_split], with P_n the votes of a fold and P their true law.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.errors import MethodError, check_type
from lrbtl.fitting.design import CompleteDesign
from lrbtl.inference.algorithms import OneStep
from lrbtl.inference.bounds import unnamed_data
from lrbtl.inference.information import information
from lrbtl.inference.targets import Target, resolve_targets
from lrbtl.methods.targets import Resolved, ScoresView, evaluate
from lrbtl.model.links import LOGISTIC
from lrbtl.model.sampling import Atoms, Sampling, as_sampling, reference_probability
from lrbtl.tables import text_table
from lrbtl.threads import one_blas_thread
from lrbtl.typing import Floats

TERMS = {
    "leading": "(P_n - P) phi*",
    "emp_direction": "R_emp^H, direction",
    "emp_score": "R_emp^eta, score",
    "projection": "R_proj, leakage",
    "bias_direction": "R_bias^H, direction",
    "cancel": "R_cancel",
    "curvature": "of a nonlinear target",
}


@dataclass(frozen=True, eq=False, repr=False)
class Remainders:
    """The error of one-step estimates where the truth is known, term by term; each array (M,).

    Attributes
    ----------
    labels : tuple of str
    error : array
        Estimate less truth: the sum of the terms.
    leading : array
        (P_n - P) phi*, which has the normal limit.
    emp_direction, emp_score : arrays
        Fluctuations from the estimated direction and from scores at the estimated eta.
    projection, bias_direction, cancel : arrays
        Leakage outside of the tangent space, bias from the direction, what is left of the first-order cancellation.
    curvature : array
        What a nonlinear target adds.
    oracle_se : array
        sqrt(V / N) at the truth.
    clt_condition : float
        C_A sqrt(largest mode / N) at the truth, which should be small for Algorithm 1.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 4000, rng=1)
    >>> found = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2)
    >>> terms = lrbtl.remainder_terms(battles, found, lrbtl.gap(0, 1, 2), truth, rank=2)
    >>> bool(abs(terms.remainder[0]) < terms.oracle_se[0])
    True
    """

    labels: tuple[str, ...]
    error: Floats
    leading: Floats
    emp_direction: Floats
    emp_score: Floats
    projection: Floats
    bias_direction: Floats
    cancel: Floats
    curvature: Floats
    oracle_se: Floats
    clt_condition: float

    @property
    def remainder(self) -> Floats:
        """The error less its leading term, (M,)."""
        return self.error - self.leading

    def __repr__(self) -> str:
        names = {**TERMS, "error": "error", "oracle_se": "oracle se"}
        rows = [[name, *(f"{x:.4f}" for x in getattr(self, field))] for field, name in names.items()]
        return f"{text_table(['term', *self.labels], rows)}\nC_A sqrt(d / n): {self.clt_condition:.3g}"


@dataclass(frozen=True)
class _Weighted:
    """Pairs with weights that sum to one over votes: those of a fold, or all pairs under the true law."""

    atoms: Atoms
    share: Floats  # of each pair
    response: Floats  # mean outcome of each pair
    ratio: Floats  # q / p, or ones
    whiten: bool

    def mean(self, scores: Floats, direction: Floats) -> float:
        """Return the mean of score times direction."""
        eta = _differences(scores, self.atoms)
        score = self.response - expit(eta)
        if self.whiten:
            score = score / (expit(eta) * expit(-eta))
        return float(self.share @ (self.ratio * score * _differences(direction, self.atoms)))


def _differences(tensor: Floats, atoms: Atoms) -> Floats:
    flat = tensor.reshape(len(tensor), -1)
    return np.asarray(flat[atoms.a, atoms.context] - flat[atoms.b, atoms.context])


@one_blas_thread
def remainder_terms(
    battles: Battles,
    found: OneStep,
    targets: Target | Iterable[Target],
    truth: ArrayLike,
    *,
    rank: int | Sequence[int],
    sampling: Sampling | None = None,
) -> Remainders:
    """Return the error of `one_step` on simulated votes, split as in the proof of the paper.

    Parameters
    ----------
    battles : Battles
        The simulated votes.
    found : OneStep
        What `one_step(battles, targets, ...)` returned.
    targets : Target or list of Target
        The same targets, with models and contexts by position.
    truth : array (d1, ..., dm)
        The true scores.
    rank : int or tuple
        Of the truth.
    sampling : Sampling, optional
        The true law of the votes, by default uniform. Algorithm 2 is taken to have weighted votes by it.

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
    >>> battles = lrbtl.simulate_battles(truth, 4000, rng=1)
    >>> found = lrbtl.one_step(battles, lrbtl.gap(0, 1, 2), rank=2)
    >>> terms = lrbtl.remainder_terms(battles, found, lrbtl.gap(0, 1, 2), truth, rank=2)
    >>> bool(abs(terms.error[0] - (found.estimate[0] - truth[0, 2] + truth[1, 2])) < 1e-12)
    True
    """
    check_type(battles, Battles, "battles", "give the simulated votes")
    check_type(found, OneStep, "found", "give what one_step(battles, targets, ...) returned")
    at = information(truth, rank=rank, sampling=sampling)
    asked = resolve_targets(unnamed_data(at.shape), targets)
    if battles.shape != at.shape or found.initial.shape[1:] != at.shape or len(asked) != len(found.labels):
        raise MethodError(
            f"the votes, the truth and what was found do not go together: shapes {battles.shape}, {at.shape} and "
            f"{found.initial.shape[1:]}, {len(asked)} targets and {len(found.labels)}."
        )
    law, whiten, scores = as_sampling(sampling), found.algorithm == 2, at.scores
    atoms, cells = CompleteDesign.of_shape(at.shape).entries, battles.cells

    def ratio(pairs: Atoms) -> Floats:
        q = reference_probability(at.shape)
        return q / law.probability(pairs, at.shape) if whiten else np.ones(len(pairs.a))

    every = _Weighted(atoms, law.weights(atoms, at.shape), expit(_differences(scores, atoms)), ratio(atoms), whiten)
    own = ratio(cells)
    folds = []
    for k in range(len(found.fold_sizes)):
        share = np.bincount(found.cell[found.fold == k], found.count[found.fold == k], battles.n_cells)
        folds.append(_Weighted(cells, share / share.sum(), cells.y, own, whiten))
    weights = found.fold_sizes / found.fold_sizes.sum()
    terms = {name: np.zeros(len(asked)) for name in TERMS}
    error, oracle_se = found.estimate.copy(), np.zeros(len(asked))
    for m, resolved in enumerate(asked):
        phi = at.resolved_influence(resolved, whiten=whiten)
        oracle_se[m] = np.sqrt(phi.variance / found.n_battles)
        value, gamma = _natural(resolved, scores)
        inside = (at.P_T @ gamma.reshape(-1)).reshape(at.shape)
        error[m] -= value
        for k, votes in enumerate(folds):
            estimate, H = found.initial[k], found.directions[k, m]
            steps = (estimate, H), (estimate, phi.direction), (scores, phi.direction)
            seen, expected = ([part.mean(*each) for each in steps] for part in (votes, every))
            beyond = np.subtract(seen, expected)
            delta = estimate - scores
            parts = {
                "leading": beyond[2],
                "emp_direction": beyond[0] - beyond[1],
                "emp_score": beyond[1] - beyond[2],
                "projection": np.sum((gamma - inside) * delta),
                "bias_direction": expected[0] - expected[1],
                "cancel": np.sum(inside * delta) + expected[1] - expected[2],
                "curvature": found.plug_in[k, m] - value - np.sum(gamma * delta),
            }
            for name, part in parts.items():
                terms[name][m] += weights[k] * part
    return Remainders(
        found.labels, error, **terms, oracle_se=oracle_se, clt_condition=at.clt_condition(found.n_battles)
    )


def _natural(target: Resolved, scores: Floats) -> tuple[float, Floats]:
    """Return the value of a target on its natural scale and its gradient there, (d1, ..., dm)."""
    flat = scores.reshape(len(scores), -1)
    values, sparse = evaluate([target], ScoresView(flat, LOGISTIC, scores.shape))
    gradient = sparse.by_context(*flat.shape).toarray().reshape(flat.shape[1], flat.shape[0]).T
    if target.scale == "logit":
        p = float(expit(values[0]))
        return p, p * (1 - p) * gradient.reshape(scores.shape)
    return float(values[0]), gradient.reshape(scores.shape)
