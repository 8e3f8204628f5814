"""The verdict of a diagnosis and its reason."""

import pytest

from lrbtl.diagnosis_text import BERNSTEIN_CEILING, SIGNAL_FLOOR, verdict

SAFE = (1, 2 * SIGNAL_FLOOR, 1.4)


@pytest.mark.parametrize(
    "numbers, conclusion, because",
    [
        (SAFE, "efficient is safe", "no battle dominates"),
        ((1, 2 * SIGNAL_FLOOR, BERNSTEIN_CEILING), "efficient is safe", "no battle dominates"),
        ((1, 2 * SIGNAL_FLOOR, 4.2), "prefer whitened", "4.2 times the normal one, more than 3"),
        ((1, 0.9 * SIGNAL_FLOOR, 4.2), "too few battles", "smaller rank or more battles"),
        ((2, 2 * SIGNAL_FLOOR, 1.4), "too few battles", "one board per group"),
    ],
)
def test_verdict_and_reason(numbers, conclusion, because):
    found, reason = verdict(*numbers)
    assert found == conclusion and because in reason and "Thin" not in reason


def test_thin_contexts_are_part_of_the_reason():
    conclusion, reason = verdict(*SAFE, ("maths", "poems", "law", "chess"))
    assert conclusion == "efficient is safe"
    assert reason.endswith("Thin contexts: 4 (maths, poems, law, ...) have wide intervals; do not use mle.")
