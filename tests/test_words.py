"""Words in the sources: terms of the field stay, and the private ones that they replaced do not come back."""

import re
from pathlib import Path

import pytest

import lrbtl

PACKAGE = Path(lrbtl.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".pyi", ".pyx", ".js", ".css", ".html"})
INSTEAD = {
    r"tells?|told|telling": "identify, report, distinguish, show",
    r"alike": "equal, correlated, exchangeable",
    r"lets? out": "flag, exempt from sharing",
    r"left open|leaves? open": "not identified, posterior variance",
    r"could have shown|could_show": "detectable",
    r"exceptional": "outlier",
    r"once (it|they) (is|are) there": "under the alternative",
    r"grounded law|outlook": "both bad, planned errors",
}
KEPT = re.compile(r"cannot[ _]tell", re.IGNORECASE)  # the verdict of that name


def old_words(text):
    """Return (line, word, words to use) of each private word of a text."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        kept = KEPT.sub("", line)
        for pattern, instead in INSTEAD.items():
            found += [(number, word[0], instead) for word in re.finditer(rf"\b({pattern})\b", kept, re.IGNORECASE)]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_private_words_stay_away(path):
    assert not old_words(path.read_text(encoding="utf-8"))


def test_old_words_are_found():
    """The search itself: whole words in any case, and not the verdict."""
    assert [word for _, word, _ in old_words("Votes tell much.\nIt cannot tell; CANNOT_TELL. Told, and alike.")] == [
        "tell",
        "Told",
        "alike",
    ]
    assert not old_words("detectable, intelligent, stellar")
