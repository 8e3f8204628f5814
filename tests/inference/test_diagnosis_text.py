"""Verdicts of a diagnosis, their reasons, and its sentences."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

import lrbtl
from lrbtl.errors import WeakSignalWarning
from lrbtl.fitting.signal import SIGNAL_FLOOR
from lrbtl.inference.diagnosis_text import BERNSTEIN_CEILING, C_A_CEILING, fit_verdict

SAFE = (1, 2 * SIGNAL_FLOOR, 1.4)
WEAK = (1, 0.9 * SIGNAL_FLOOR, 1.4)
KEPT = {"advice": "kept; nothing needs doing", "chosen": True}
NAN = float("nan")


def verdict(numbers, *, chosen=False, asks_for_more=False, coverage=(NAN, NAN), **found):
    """The verdict on a diagnosis with these numbers and no others."""
    n_groups, signal, bernstein = numbers
    plain = {"unit": "battles", "advice": None, "thin_contexts": (), "share": NAN, "ranks": (), "rank": ()} | found
    theory = {"C_A": 2.0, "C_A_even": 1.0, "whitened_bernstein": 1.4}
    plain = theory | plain
    fields = {"groups": ((),) * n_groups, "signal": signal, "bernstein": bernstein}
    diagnosis = SimpleNamespace(coverage=coverage[0], coverage_at_best=coverage[1], **fields, **plain)
    return fit_verdict(diagnosis, chosen=chosen, asks_for_more=asks_for_more)


@pytest.mark.parametrize(
    "numbers, options, conclusion, because",
    [
        (SAFE, {}, "efficient is safe", "no battle dominates"),
        (SAFE, {"unit": "observations"}, "efficient is safe", "no observation dominates"),
        ((1, 2 * SIGNAL_FLOOR, BERNSTEIN_CEILING), {}, "efficient is safe", "no battle dominates"),
        ((1, 2 * SIGNAL_FLOOR, 4.2), {}, "prefer whitened", "4.2 times the normal one, more than 3"),
        (SAFE, {"C_A": C_A_CEILING}, "efficient is safe", "no battle dominates"),
        (SAFE, {"C_A": 2 * C_A_CEILING}, "prefer whitened", "C_A is 100 times"),
        (SAFE, {"C_A": 2 * C_A_CEILING, "whitened_bernstein": 5.0}, "prefer hierarchical", "nor is the whitened one"),
        (WEAK, {"advice": "use a smaller rank"}, "too few battles", "smaller rank"),
        (WEAK, {"advice": "use a smaller rank", "unit": "observations"}, "too few observations", "smaller rank"),
        (WEAK, KEPT, "efficient, with care", "below 1.5; kept; nothing needs doing."),
        ((1, 0.9 * SIGNAL_FLOOR, 4.2), KEPT, "prefer whitened", "4.2 times"),
        (WEAK, {"advice": None}, "efficient is safe", "no battle dominates"),
        ((2, 2 * SIGNAL_FLOOR, 1.4), {}, "too few battles", "one board per group"),
        ((2, 2 * SIGNAL_FLOOR, 1.4), {"coverage": (0.5, 0.5)}, "too few battles", "one board per group"),
        (SAFE, {"coverage": (0.85, 0.95)}, "efficient is safe", "no battle dominates"),
        (SAFE, {"coverage": (0.75, 0.95)}, "prefer hierarchical", "expected to hold for 75% of them"),
        (SAFE, {"coverage": (0.85, 0.85)}, "prefer hierarchical", "Use method='hierarchical'"),
        (SAFE, {"asks_for_more": True}, "too few battles", "use method='hierarchical'"),
    ],
)
def test_verdict_and_reason(numbers, options, conclusion, because):
    found, reason = verdict(numbers, **options)
    assert found == conclusion and because in reason and "Thin" not in reason


def test_thin_contexts_are_part_of_the_reason():
    conclusion, reason = verdict(SAFE, thin_contexts=("maths", "poems", "law", "chess"))
    assert conclusion == "efficient is safe"
    assert reason.endswith("Thin contexts: 4 (maths, poems, law, ...) have wide intervals; do not use mle.")


@pytest.fixture(scope="module")
def noisy():
    """Battles whose second component hardly exceeds the noise, but predicts."""
    truth = lrbtl.simulate_scores((12, 6), 2, scale=1.2, rng=4)
    return lrbtl.simulate_battles(truth, 3_000, rng=5)


def test_a_chosen_rank_and_its_advice_agree(noisy):
    explicit = lrbtl.fit(noisy, 3)
    diagnosis = lrbtl.diagnose(noisy, replace(explicit, rank_chosen=True))
    assert diagnosis.signal < SIGNAL_FLOOR and diagnosis.verdict == "efficient, with care"
    assert "rank='auto' kept it because it predicts held-out battles better" in diagnosis.reason
    assert "smaller rank" not in str(diagnosis)
    diagnosis = lrbtl.diagnose(noisy, explicit)
    assert diagnosis.verdict == "too few battles" and "use a smaller rank" in diagnosis.reason
    with pytest.warns(WeakSignalWarning, match="use a smaller rank"):
        lrbtl.analyse(noisy, rank=3, n_folds=2, method="efficient")


def test_observations_are_not_called_battles():
    truth = lrbtl.simulate_scores((9, 7), 2, scale=2.0, rng=0)
    data = lrbtl.simulate_observations(truth, 3_000, link="identity", rng=1)
    diagnosis = lrbtl.diagnose(data)
    texts = str(diagnosis), str(lrbtl.select_rank(data, [1, 2, 3])), str(lrbtl.infer(data, lrbtl.entry(0, 0), rank=2))
    assert all("observation" in text for text in texts)
    assert not any(word in text.lower() for text in texts for word in ("battle", "model", "context"))
