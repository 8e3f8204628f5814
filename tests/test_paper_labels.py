"""Every label of the paper that code and documents cite exists in its source."""

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = Path(os.environ.get("LRBTL_PAPER", ROOT.parent / "shared" / "paper"), "LowrankLLMEvaluation.tex.txt")
KINDS = "alg|app|ass|assump|eq|ex|fig|lem|prop|rem|sec|tab|thm"
CITED = re.compile(rf"\b({KINDS})(?::|\. )([A-Za-z0-9_-]+)")


def texts():
    """Text of what may cite the paper, by file."""
    patterns = "src/**/*.py", "src/**/*.pyx", "docs/*.md", "tests/**/*.py", "benchmarks/*.py", "README.md"
    paths = [path for pattern in patterns for path in ROOT.glob(pattern)]
    return {path: path.read_text(encoding="utf-8") for path in paths if path != Path(__file__)}


def citations():
    """(file, label) of every citation [Li26, eq. label, ...] or [eq. label], and all in docs/paper.md and its tests."""
    found = []
    for path, text in texts().items():
        joined = re.sub(r"\s+", " ", text)
        for inside in re.findall(rf"\[(?:Li26,|(?=(?:{KINDS})\. ))([^\]]*)\]", joined):
            found += [(path.name, f"{kind}:{name}") for kind, name in CITED.findall(inside)]
        if path.name in ("paper.md", "test_errata.py", "paper.py"):
            labels = re.findall(rf"`+({KINDS}):([A-Za-z0-9_-]+)`+", text)
            found += [(path.name, f"{kind}:{name}") for kind, name in labels]
    return found


def test_citations_are_found():
    assert {("algorithms.py", "alg:ws-onestep"), ("mathematics.md", "eq:onestep-fold")} <= {*citations()}
    assert len({label for _, label in citations()}) > 60


@pytest.mark.skipif(not SOURCE.exists(), reason="the source of the paper is not here")
def test_every_cited_label_exists():
    labels = set(re.findall(r"\\label\{([^}]*)\}", SOURCE.read_text(encoding="utf-8")))
    missing = sorted({(name, label) for name, label in citations() if label not in labels})
    assert not missing


@pytest.mark.skipif(not SOURCE.exists(), reason="the source of the paper is not here")
def test_every_table_and_figure_of_the_paper_has_its_place():
    text = SOURCE.read_text(encoding="utf-8")
    floats = re.findall(r"\\begin\{(?:table|figure)\}.*?\\end\{(?:table|figure)\}", text, flags=re.DOTALL)
    labels = [re.findall(r"\\label\{([^}]*)\}", each)[0] for each in floats]
    shown = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").split("## Tables and figures")[1]
    assert len(labels) == 15 and not [label for label in labels if f"`{label}`" not in shown]
