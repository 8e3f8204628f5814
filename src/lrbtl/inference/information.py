"""The objects of the paper at given scores: information operators, tangent projection, influence functions.

With p the law of the votes (or their observed frequencies), I the Fisher information of a vote and P_T the projection
on the tangent space of the centred low-rank set at T,

    G H = E[I(eta) <H, X> X],   A = P_T G P_T,   H* = A^-1 P_T Gamma,   phi(X, y) = s(y, eta) <H*, X>,
    V_eff = E[phi^2] = <Gamma, H*>,   G0 H = E_uniform[<H, X> X] = H / d_eff on zero-sum tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse.linalg import LinearOperator
from scipy.special import expit

from lrbtl.data.battles import Battles
from lrbtl.errors import (
    CodeRangeError,
    ContextModeError,
    LengthMismatchError,
    MethodError,
    OutcomeRangeError,
    RankError,
    as_floats,
    check_flag,
    check_type,
    is_within,
    spelled,
)
from lrbtl.fitting.design import CompleteDesign, Design
from lrbtl.fitting.jacobian import eta_change
from lrbtl.fitting.local import Local
from lrbtl.fitting.low_rank import Fit, make_design
from lrbtl.fitting.solvers import IsotropicSolver, Solver
from lrbtl.inference.bounds import even_norm, inverse_norm, point_of, unnamed_data
from lrbtl.inference.targets import Target, resolve_targets
from lrbtl.lowrank.tangent import TangentSpace
from lrbtl.lowrank.tucker import check_rank
from lrbtl.methods.one_step import Law, evaluate_targets
from lrbtl.methods.targets import Resolved, Stack
from lrbtl.model.sampling import Sampling, UniformSampling, as_sampling, reference_probability
from lrbtl.typing import AnyInts, Floats, Longs


@dataclass(frozen=True, eq=False)
class InfluenceFunction:
    """How one vote moves the estimate of a target: phi(X, y) = s(y, eta) <H, X>, or w s / I <H, X> if whitened.

    Attributes
    ----------
    label : str
    direction : array (d1, ..., dm)
        H.
    variance : float
        E[phi^2]: V_eff for the efficient influence function, V_ws for the whitened one.
    scores : array (d1, ..., dm)
        T, where eta is taken.
    weights : Sampling or None
        Law of the votes for w = q / p; None for w = 1.
    whiten : bool

    Examples
    --------
    >>> import lrbtl
    >>> truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
    >>> phi = lrbtl.information(truth, rank=2).influence_function(lrbtl.gap(0, 1, 2), whiten=True)
    >>> phi.direction.shape, bool(phi(1, 0, 1, 2)[0] < 0)
    ((8, 5), True)
    """

    label: str
    direction: Floats
    variance: float
    scores: Floats
    weights: Sampling | None
    whiten: bool

    def __call__(self, a: AnyInts | int, b: AnyInts | int, y: ArrayLike, context: Any = ()) -> Floats:
        """Return phi of votes y between models a and b, by position, in contexts: one array per context mode."""
        shape = self.scores.shape
        first, second = _positions(a, shape[0], "a"), _positions(b, shape[0], "b")
        modes = context if isinstance(context, tuple) else (context,)
        if len(modes) != len(shape) - 1:
            raise ContextModeError(f"context={spelled(context)} names {len(modes)} positions, not {len(shape) - 1}.")
        where = np.zeros(first.shape, dtype=np.int64)
        places = [_positions(position, size, "context") for position, size in zip(modes, shape[1:], strict=True)]
        if len({column.size for column in (first, second, *places, np.atleast_1d(y))} - {1}) > 1:
            raise LengthMismatchError("a, b, y and context have different lengths: give one of each for every vote.")
        for place, size in zip(places, shape[1:], strict=True):
            where = where * size + place
        flat, direction = self.scores.reshape(shape[0], -1), self.direction.reshape(shape[0], -1)
        eta = flat[first, where] - flat[second, where]
        score = as_floats(y, "y", OutcomeRangeError) - expit(eta)
        if self.whiten:
            score = score / (expit(eta) * expit(-eta))
        if self.weights is not None:
            atoms = _Votes(np.minimum(first, second), np.maximum(first, second), where)
            score = score * reference_probability(shape) / self.weights.probability(atoms, shape)
        return np.asarray(score * (direction[first, where] - direction[second, where]))


@dataclass(frozen=True)
class _Votes:
    a: AnyInts
    b: AnyInts
    context: AnyInts


def _positions(values: Any, size: int, name: str) -> Longs:
    """Return positions below a size; raise `CodeRangeError` where they are none."""
    found = as_floats(values, name, CodeRangeError).reshape(-1)
    if not np.all((found >= 0) & (found < size) & (found == np.floor(found))):
        raise CodeRangeError(f"{name}={spelled(values)}: give positions from 0 to {size - 1}.", argument=name)
    return found.astype(np.int64)


class Information:
    """The information of votes at scores T, and what follows from it; operators act on ``tensor.ravel()``.

    Attributes
    ----------
    shape, rank : tuples
    d_eff : float
        D (d1 - 1) / 2, the d* of "G0 = I / d*".
    dimension : int
        Of the tangent space.

    Examples
    --------
    >>> import lrbtl
    >>> import numpy as np
    >>> truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
    >>> at = lrbtl.information(truth, rank=2)
    >>> H = at.direction(lrbtl.gap(0, 1, 2))
    >>> gamma = np.zeros((8, 5)); gamma[0, 2], gamma[1, 2] = 1, -1
    >>> bool(np.allclose(at.A @ H.ravel(), at.P_T @ gamma.ravel()))
    True
    """

    shape: tuple[int, ...]
    rank: tuple[int, ...]
    d_eff: float

    def __init__(self, here: Local, shape: tuple[int, ...], rank: tuple[int, ...], law: Sampling | None) -> None:
        self._here, self._law = here, law
        self.shape, self.rank = shape, rank
        self.d_eff = here.design.d_eff

    def __repr__(self) -> str:
        under = "observed votes" if self._law is None else repr(self._law)
        return f"Information(shape={self.shape}, rank={self.rank}, {under})"

    @property
    def dimension(self) -> int:
        """Dimension of the tangent space."""
        return self._here.space.dimension

    @property
    def scores(self) -> Floats:
        """T, (d1, ..., dm)."""
        return self._here.space.point.dense().reshape(self.shape)

    @cached_property
    def _solver(self) -> Solver:
        return self._here.solver()

    @property
    def G(self) -> LinearOperator:
        """H -> E[I(eta) <H, X> X] [Li26, eq. G-operator], or its mean over observed votes [Li26, eq. Ghat_def]."""
        return self._operator(lambda z: _gram(self._here.design, self._here.design.count * self._here.terms.fisher, z))

    @property
    def G0(self) -> LinearOperator:
        """H -> E[<H, X> X] under uniform sampling: H / d_eff on zero-sum tensors [Li26, eq. G0-whitened]."""
        atoms = CompleteDesign.of_shape(self.shape)
        weight = np.full(len(atoms.a), reference_probability(self.shape))
        return self._operator(lambda z: _gram(atoms, weight, z))

    @property
    def P_T(self) -> LinearOperator:
        """The orthogonal projection on the tangent space [Li26, eq. signal_tangent]."""
        space = self._here.space
        return self._operator(lambda z: space.dense(space.solve_isotropic(space.pull_dense(z))))

    @property
    def A(self) -> LinearOperator:
        """P_T G P_T [Li26, eq. A-operator]."""
        project, gram = self.P_T, self.G
        return self._operator(lambda z: (project @ (gram @ (project @ z.reshape(-1)))).reshape(z.shape))

    @property
    def A_inverse(self) -> LinearOperator:
        """A^-1 on the tangent space, zero outside of it."""
        space = self._here.space
        return self._operator(lambda z: space.dense(self._solver.solve(space.pull_dense(z))))

    @cached_property
    def C_A(self) -> float:
        """Norm of A^-1 from entries to entries over d_eff [Li26, eq. CA_def]; estimated above 1500 scores."""
        return inverse_norm(self._here.space, self._solver) / self.d_eff

    @cached_property
    def C_A_even(self) -> float:
        """C_A if every vote had the information 1/4 under uniform sampling: 4 times the norm of P_T."""
        return even_norm(self._here)

    def clt_condition(self, n: float) -> float:
        """Return C_A sqrt(largest mode / n), which the normal limit needs to vanish [Li26, eq. clt-condition]."""
        if not is_within(n, 0.0, np.inf):
            raise MethodError(f"n={spelled(n)}: give the number of votes.", argument="n", value=n)
        return self.C_A * float(np.sqrt(max(self.shape) / n))

    def direction(self, target: Target, *, whiten: bool = False) -> Floats:
        """Return H = A^-1 P_T Gamma (d1, ..., dm) [Li26, eq. Hstar], or d_eff P_T Gamma [Li26, eq. ws-directions]."""
        return self.influence_function(target, whiten=whiten).direction

    def influence_function(self, target: Target, *, whiten: bool = False) -> InfluenceFunction:
        """Return the efficient influence function of a target [Li26, eq. eif-main], or the whitened one.

        The target is on its natural scale, and its models and contexts are named by position. Whitened votes are
        weighted by q / p under a law that is not uniform.

        Examples
        --------
        >>> import lrbtl
        >>> truth = lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0)
        >>> phi = lrbtl.information(truth, rank=2).influence_function(lrbtl.gap(0, 1, 2))
        >>> bool(phi(0, 1, 1, 2)[0] > 0 > phi(0, 1, 0, 2)[0])
        True
        """
        check_flag(whiten, "whiten")
        (resolved,) = resolve_targets(unnamed_data(self.shape), [target])
        return self.resolved_influence(resolved, whiten=whiten)

    def resolved_influence(self, resolved: Resolved, *, whiten: bool = False) -> InfluenceFunction:
        """Return the same of a target that is given by position."""
        space = self._here.space
        values, gradients = evaluate_targets(space, Stack.of([resolved]), self.shape)
        if resolved.scale == "logit":
            gradients = gradients * float(expit(values[0]) * expit(-values[0]))
        solver = IsotropicSolver(space, self.d_eff) if whiten else self._solver
        coordinates = np.ascontiguousarray(solver.solve(gradients)[:, 0])
        law = self._law if whiten and not isinstance(self._law, UniformSampling) else None
        variance = float(gradients[:, 0] @ coordinates)
        if whiten:
            design = self._here.design
            weight = (
                1.0 if law is None else reference_probability(self.shape) / law.probability(design.entries, self.shape)
            )
            change = eta_change(design.entries, space, coordinates)
            variance = float(design.count @ (np.square(weight * change) / self._here.terms.fisher))
        direction = space.dense(coordinates).reshape(self.shape)
        return InfluenceFunction(resolved.label, direction, variance, self.scores, law, whiten)

    def _operator(self, apply: Any) -> LinearOperator:
        """Return a symmetric operator on flattened tensors from one on matrices (d1, D)."""
        d1, D = len(self._here.space.U), len(self._here.space.V)

        def matvec(z: Floats) -> Floats:
            return np.asarray(apply(np.asarray(z, dtype=float).reshape(d1, D))).reshape(-1)

        return LinearOperator((d1 * D, d1 * D), matvec=matvec, rmatvec=matvec, dtype=np.float64)


def _gram(design: Design, weight: Floats, z: Floats) -> Floats:
    """Return the sum of weight <z, X> X for a matrix (d1, D), through the kernel."""
    context, model = design.entries.slot_places
    sums = design.entries.slot_matrix(design.entries.gram_sums(weight, np.ascontiguousarray(z[model, context])))
    return np.asarray(sums if isinstance(sums, np.ndarray) else sums.toarray()).T


def information(
    scores: Fit | ArrayLike,
    *,
    rank: int | Sequence[int] | None = None,
    battles: Battles | None = None,
    sampling: Sampling | None = None,
) -> Information:
    """Return the information of votes at scores: operators, directions and influence functions.

    Parameters
    ----------
    scores : Fit or array (d1, ..., dm)
        Of a low rank, zero sums along mode 1.
    rank : int or tuple
        Of the scores; not needed for a fit.
    battles : Battles, optional
        Observed votes, in the place of a law; for a fit without a law those that it was made of.
    sampling : Sampling, optional
        Law of the votes, by default uniform.

    Examples
    --------
    >>> import lrbtl
    >>> at = lrbtl.information(lrbtl.simulate_scores((8, 5), 2, scale=2, rng=0), rank=2)
    >>> at.d_eff, at.dimension
    (17.5, 20)
    """
    if battles is not None and sampling is not None:
        raise MethodError("battles and sampling were both given: information is that of votes or of a law.")
    if isinstance(scores, Fit):
        point, shape, full_rank = scores.point, scores.battles.shape, scores.rank
        if battles is None and sampling is None and isinstance(scores.battles, Battles):
            battles = scores.battles
    else:
        if rank is None:
            raise RankError("the rank of the scores is needed: give rank=.")
        dense = np.atleast_1d(as_floats(scores, "scores", RankError))
        shape = dense.shape
        full_rank = check_rank(rank, shape)
        point = point_of(dense, full_rank)
    if battles is not None:
        check_type(battles, Battles, "battles", "give Battles, or a sampling law")
        if battles.shape != shape:
            raise RankError(f"the battles have shape {battles.shape} and the scores {shape}: give matching ones.")
        design = make_design(battles, None)
        here = Local(design.with_count(design.count / design.count.sum()), TangentSpace(point))
        return Information(here, shape, full_rank, None)
    law = as_sampling(sampling)
    return Information(Law.of(law, shape).at(TangentSpace(point)), shape, full_rank, law)
