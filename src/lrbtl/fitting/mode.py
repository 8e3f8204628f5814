"""The mode of T = L + E at a rank and a tau: Newton steps on the expansions of `fitting.deviations`."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lrbtl.fitting.blocks import BlockDesign
from lrbtl.fitting.deviations import OF_VOTES, Expansion, Scores
from lrbtl.fitting.newton import SLOW, Curvature
from lrbtl.lowrank.arrowhead import Factor
from lrbtl.lowrank.tucker import Tucker

MAX_ITER = 10
SETTLING = 5  # steps after which the prior stays
SMALLEST_STEP = 1e-3
LARGEST_START = 5.0  # logits
LEAST_START = 1e-3  # of the noise of an entry: the size of a start where battles favour nobody
CLOSE = 5.0  # nats from the mode at which the exact Hessian replaces the information
DECREMENT = 5e-3  # nats: far below what moves an interval
ENOUGH = 0.05  # nats that the last step with the exact Hessian may gain
MANY_SLOTS = 50_000  # beyond which these nats grow with the slots: each moves by a thousandth of its error at most
CIRCLES, CIRCLING = 3, 0.8  # steps, and share of the last promise, from which a prior that follows scores goes round


@dataclass(frozen=True)
class Mode:
    """Where the posterior is largest.

    Attributes
    ----------
    scores : Scores
    last : Expansion
        Of the last Newton step.
    n_iter : int
    converged : bool
    """

    scores: Scores
    last: Expansion
    n_iter: int
    converged: bool

    @property
    def tau(self) -> float:
        """Size of the deviations."""
        return self.last.tau

    @cached_property
    def at(self) -> Expansion:
        """The posterior round the mode."""
        return replace(self.last, scores=self.scores, before=self.last.prior.precision, settled=True)

    @property
    def fit(self) -> float:
        """Negative log-likelihood over the dispersion, and that of the deviations."""
        deviations = 0.5 * float(self.scores.E @ self.scores.E) / self.tau**2 if self.tau > 0 else 0.0
        return self.scores.loss / self.last.dispersion + deviations


def find_mode(
    scores: Scores,
    tau: float,
    dispersion: float,
    gauge: float,
    near: Expansion | None = None,
    *,
    rough: float = 0.0,
    whole: bool = True,
) -> Mode:
    """Return the mode reached from some scores by Newton steps, halved until the posterior grows.

    `near` is an expansion at scores near those, if at another tau, whose prior is kept at first. A step that promises
    less than `rough` nats is the last one, and one that makes a component vanish, unless the mode is wanted as a whole.
    """
    if tau == 0.0:
        scores = replace(scores, E=np.zeros_like(scores.E))
    expected, before = (np.inf, None) if near is None else (0.0, near.prior.precision)
    many = max(1.0, scores.design.n_slots / MANY_SLOTS)
    for n_iter in range(1, MAX_ITER + 1):
        at = Expansion(scores, tau, dispersion, gauge, before, n_iter > SETTLING)
        if near is not None and near.scores is scores:
            at = near.sharing(at, *OF_VOTES)
        before = at.prior.precision
        gradient = at.gradient()
        close = expected < many * CLOSE
        factor = at.newton_factor() if close else at.factor
        step = factor.solve(gradient)
        dE = at.deviation_step(step)
        last, expected = expected, at.decrement(gradient, step, dE)
        here, scale, trial = at.cost(scores), 1.0, scores.moved(step, dE)
        while (fall := here - at.cost(trial, scale * step)) < -DECREMENT and scale > SMALLEST_STEP:
            scale *= 0.5
            trial = scores.moved(scale * step, scale * dE)
        if fall >= -DECREMENT:
            scores = trial
        circling = many > 1.0 and n_iter > CIRCLES and expected > CIRCLING * last
        if not whole and scores.vanished:
            return _lighter(Mode(scores, at, n_iter, False))
        if circling or abs(fall) < many * DECREMENT or expected < max(rough, many * ENOUGH if close else 0.0):
            return _lighter(Mode(scores, at, n_iter, scale == 1.0))
        if close and scale == 1.0:
            scores, done = _small_steps(at, factor, scores, expected)
            if done:
                return _lighter(Mode(scores, at, n_iter, True))
    return _lighter(Mode(scores, at, n_iter, False))


def _small_steps(at: Expansion, factor: Factor, scores: Scores, expected: float) -> tuple[Scores, bool]:
    """Return the scores after steps with a Hessian from nearby, as long as they converge fast, and if they have."""
    curvature = Curvature(at.scores.space, factor, 0.0)
    while True:
        near = at.at_scores(scores)
        gradient = near.gradient()
        step = -curvature.step(scores.space, gradient)[0]
        dE = near.deviation_step(step)
        last, expected = expected, near.decrement(gradient, step, dE)
        if expected > SLOW * last:
            return scores, False
        scores = scores.moved(step, dE)
        if expected < DECREMENT * max(1.0, scores.design.n_slots / MANY_SLOTS):
            return scores, True


def _lighter(mode: Mode) -> Mode:
    """Return the mode with what votes say there, but without terms of cells and the last step."""
    for name in OF_VOTES:
        getattr(mode.at, name)
    _ = mode.scores.loss
    for scores in (mode.scores, mode.last.scores):
        scores.__dict__.pop("terms", None)
    for name in (*OF_VOTES, "_told", "residual", "information", "factor"):
        mode.last.__dict__.pop(name, None)
    return mode


def start_scores(design: BlockDesign, point: Tucker) -> Scores:
    """Return low-rank scores without deviations; not quite zero where all battles cancel, as zero has no directions.

    Nor so large that votes have no information there: single votes in a context make wild guesses.
    """
    least = LEAST_START * design.noise
    if not point.singular_values[0][0] > least:
        line = np.linspace(-1.0, 1.0, design.shape[0])[:, None]
        ones = [np.ones((size, 1)) for size in design.shape[1:]]
        flat = Tucker(np.ones((1,) * len(design.shape)), (line, *ones)).canonical()
        point = replace(flat, core=flat.core * (least / flat.singular_values[0][0]))
    found = Scores(design, design.space(point), np.zeros(design.n_slots))
    largest = float(np.abs(found.low_rank).max())
    if largest > LARGEST_START:
        return replace(found, space=design.space(replace(point, core=point.core * (LARGEST_START / largest))))
    return found
