"""A short campaign of random calls: every one returns a result or raises a class of `lrbtl.errors`.

`python tests/fuzz/harness.py` runs as long as one likes.
"""

import inspect
import os

import pytest

import lrbtl
from fuzz import surface
from fuzz.harness import AREAS, find_leaks

CASES = int(os.environ.get("LRBTL_FUZZ_CASES", "150"))
SLOW = ("metamorphic", "commands")  # areas whose cases are whole analyses: tests/test_metamorphic.py has more
# Classes that the calls make or take as arguments and that have nothing to be asked.
PLAIN = {"CustomLink", "HierarchicalConfig", "Improvements", "Link", "Remainders"}


@pytest.mark.parametrize("area", AREAS)
def test_nothing_leaks(area):
    cases = max(1, CASES // 5) if area in SLOW else CASES
    n, leaks = find_leaks(area, range(cases))
    assert n == cases and not leaks, "\n".join(map(str, leaks[:5]))


def test_every_public_class_has_an_example_whose_methods_are_called():
    kinds = [value for name in lrbtl.__all__ if inspect.isclass(value := getattr(lrbtl, name))]
    passed = {kind.__name__ for kind in kinds if any(base.__name__ in surface.PROTOCOLS for base in kind.__mro__)}
    lacking = {kind.__name__ for kind in kinds} - set(surface.examples()) - passed - PLAIN
    assert not lacking, "give the fuzzer an example of these: fuzz.surface._examples"
    called = {name for name, _ in surface.surface()}
    for kind in kinds:
        if kind.__name__ in surface.examples():
            assert {f"{kind.__name__}.{name}" for name in surface.asked_of(kind)} <= called


def test_what_is_added_to_the_package_is_called(monkeypatch):
    def brand_new(battles: object, level: float = 0.95) -> None:
        raise KeyError("leaks")

    monkeypatch.setattr(lrbtl, "brand_new", brand_new, raising=False)
    monkeypatch.setattr(lrbtl, "__all__", ["brand_new"])
    surface.surface.cache_clear()
    try:
        _, leaks = find_leaks("surface", range(3))
    finally:
        surface.surface.cache_clear()
    assert {leak.kind for leak in leaks} == {"KeyError"}
