"""The grounded law: probabilities as they are written, derivatives against differences."""

import numpy as np
import pytest

from lrbtl.data.cells import BOTH_BAD
from lrbtl.errors import LinkError
from lrbtl.model.both_bad import BothBadLink

RNG = np.random.default_rng(0)
A, B = RNG.normal(scale=2, size=(2, 40))


def written_out(a, b, threshold):
    """Probabilities of b, tie, a and both bad."""
    x, y, t = np.exp(a), np.exp(b), np.exp(threshold)
    first, second, bad = x / (x + t * y + 1), y / (y + t * x + 1), 1 / (1 + x + y)
    return np.stack([second, 1 - first - second - bad, first, bad])


@pytest.mark.parametrize("tie", [-2.0, 0.0, 0.7])
def test_probabilities_and_derivatives(tie):
    link = BothBadLink(tie)
    log_p, by = link.outcomes(A, B)
    np.testing.assert_allclose(np.exp(log_p), written_out(A, B, np.exp(tie)), atol=1e-12)
    h = 1e-6
    moved = [(A + h, B, tie), (A, B + h, tie), (A, B, tie + h)], [(A - h, B, tie), (A, B - h, tie), (A, B, tie - h)]
    for found, up, down in zip(by, *moved, strict=True):
        numeric = (BothBadLink(up[2]).outcomes(*up[:2])[0] - BothBadLink(down[2]).outcomes(*down[:2])[0]) / (2 * h)
        np.testing.assert_allclose(found, numeric, atol=1e-7)


def test_a_duel_is_the_points_where_not_both_were_bad():
    link = BothBadLink(-0.5)
    p = written_out(A, B, np.exp(-0.5))
    odds, *by = link.duel(A, B)
    np.testing.assert_allclose(odds, np.log(p[2] + p[1] / 2) - np.log(p[0] + p[1] / 2))
    np.testing.assert_allclose(link.duel(B, A)[0], -odds)
    h = 1e-6
    np.testing.assert_allclose(by[0], (link.duel(A + h, B)[0] - link.duel(A - h, B)[0]) / (2 * h), atol=1e-7)
    np.testing.assert_allclose(by[1], (link.duel(A, B + h)[0] - link.duel(A, B - h)[0]) / (2 * h), atol=1e-7)
    numeric = (BothBadLink(-0.5 + h).duel(A, B)[0] - BothBadLink(-0.5 - h).duel(A, B)[0]) / (2 * h)
    np.testing.assert_allclose(by[2][0], numeric, atol=1e-7)


def test_far_scores_stay_finite():
    log_p, by = BothBadLink(0.0).outcomes(np.array([400.0, -400.0]), np.array([-400.0, -400.0]))
    assert np.isfinite(log_p).all() and np.isfinite(by).all()


def test_the_law_needs_both_scores_and_its_outcomes():
    link = BothBadLink()
    for call in (lambda: link.terms(A, A), lambda: link.mean(A)):
        with pytest.raises(LinkError, match="both scores"):
            call()
    with pytest.raises(LinkError, match="both_bad='tie'"):
        link.check(np.array([0.3, BOTH_BAD]), True)
    with pytest.raises(LinkError, match="no vote says that both were bad"):
        link.check(np.array([0.0, 0.5, 1.0]), True)
    with pytest.raises(LinkError, match="it is a tie"):
        link.check(np.array([0.0, BOTH_BAD, 1.0]), True)
