"""A short campaign of random calls: every one returns a result or raises a class of `lrbtl.errors`.

`python tests/fuzz/harness.py` runs as long as one likes.
"""

import os

import pytest

from fuzz.harness import AREAS, find_leaks

CASES = int(os.environ.get("LRBTL_FUZZ_CASES", "150"))


@pytest.mark.parametrize("area", AREAS)
def test_nothing_leaks(area):
    n, leaks = find_leaks(area, range(CASES))
    assert n == CASES and not leaks, "\n".join(map(str, leaks[:5]))
