"""Pages keep to one vocabulary: words that once made a dialect do not come back; lines and sentences are short."""

import importlib.machinery
import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs" / "llms.txt"]
SCRIPTS = sorted((ROOT / "docs" / "gallery").glob("*.*"))

# What was written, and what to write. "cannot tell" is a verdict, and stays.
DIALECT = {
    r"\b(?<!cannot )(?<!not )tells?\b": "show, estimate, distinguish, carry information",
    r"\btold\b": "identified, distinguished",
    r"\balike\b": "equal, correlated, the same",
    r"\bleft open\b|\bleaves? open\b": "not identified",
    r"\blets? out\b|\blet_out\b": "flagged and exempted from sharing",
    r"\bwhat differs\b": "category-specific variance",
    r"\bhonest(y|ly)?\b": "valid, calibrated, covers",
    r"\bhangs? together\b": "are correlated",
    r"\bonce (it is|they are) there\b": "under the alternative",
    r"\bcould have shown\b": "smallest gap detectable with 80% power",
    r"\bbeside other packages\b": "compared with other packages",
    r"\bturn(s|ed)? round\b|\bturns \w+ round\b": "reverse",
}


def dialect(text):
    """Return the words of the dialect in a text, with what to write in their place."""
    text = " ".join(text.split())
    found = [(found[0], better) for old, better in DIALECT.items() for found in re.finditer(old, text, re.IGNORECASE)]
    return [f"{word!r}: write {better}" for word, better in found]


def without_code(text):
    """Return a page without blocks of code and code spans."""
    return re.sub(r"`[^`]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("page", [*PAGES, *SCRIPTS], ids=lambda page: page.name)
def test_pages_have_no_dialect(page):
    assert not dialect(without_code(page.read_text(encoding="utf-8")))


def test_dialect_is_found():
    assert dialect("votes tell\nlittle") == ["'tell': write show, estimate, distinguish, carry information"]
    assert dialect("two voters are alike") and dialect("Honest intervals") and dialect("what the votes leave open")
    assert not dialect("cannot tell x from y") and not dialect("does not tell") and not dialect("storytelling")


def prose_script():
    loader = importlib.machinery.SourceFileLoader("prose", str(ROOT / "scripts" / "prose"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("prose", loader))
    loader.exec_module(module)
    return module


PROSE = prose_script()


@pytest.mark.parametrize("page", [page for page in PAGES if page.suffix == ".md"], ids=lambda page: page.name)
def test_pages_have_short_lines_and_sentences(page):
    text = page.read_text(encoding="utf-8")
    assert not PROSE.long_lines(text)
    counts = [len(sentence.split()) for sentence in PROSE.sentences(text)]
    assert not counts or sum(counts) / len(counts) <= PROSE.WORDS


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
