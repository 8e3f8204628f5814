"""Documentation that stays true: code blocks run, outputs agree, links lead somewhere, names and pages are listed."""

import contextlib
import doctest
import importlib
import io
import pkgutil
import re
import shlex
from itertools import zip_longest
from pathlib import Path

import pytest

import lrbtl

ROOT = Path(__file__).parents[1]
PACKAGE = Path(lrbtl.__file__).parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(module.name for module in pkgutil.walk_packages(lrbtl.__path__, "lrbtl."))
TREE = re.MULTILINE | re.DOTALL
FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", TREE)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?")


def code_blocks(text):
    """Return (code, output, line) of each runnable block; output is the `text` block that follows at once, or None."""
    found = list(FENCE.finditer(text))
    blocks = []
    for here, after in zip_longest(found, found[1:]):
        line = text.count("\n", 0, here.start()) + 1
        if here[1] == "console":
            blocks.append((*console(here[2]), line))
        elif here[1] == "python":
            follows = after is not None and after[1] == "text" and not text[here.end() : after.start()].strip()
            blocks.append((here[2], after[2] if follows else None, line))
    return blocks


def console(block):
    """Return code that runs the commands of a console block ($ lrbtl ..., $ echo $?), and the output that it shows."""
    lines = block.splitlines()
    commands = [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]
    assert all(command in (["echo", "$?"], ["lrbtl", *command[1:]]) for command in commands)
    runs = ["print(code)" if command[0] == "echo" else f"code = main({command[1:]!r})" for command in commands]
    shown = "\n".join(line for line in lines if not line.startswith("$ "))
    return "\n".join(["from lrbtl.cli.main import main", *runs]), shown


def same_output(got, want):
    """Return whether words agree and numbers agree up to one in their last digit: platforms round differently."""
    if NUMBER.sub("#", got).split() != NUMBER.sub("#", want).split():
        return False
    pairs = zip(NUMBER.findall(got), NUMBER.findall(want), strict=True)
    return all(same_number(one, other) for one, other in pairs)


def same_number(got, want):
    """Return whether two printed numbers agree up to two in a thousand, or one in the last of several digits."""
    one, other = (float(number.replace(",", "")) for number in (got, want))
    decimals = min(len(number.partition(".")[2]) for number in (got, want))
    several = min(sum(map(str.isdigit, number)) for number in (got, want)) > 1
    return one == pytest.approx(other, rel=2e-3, abs=1.001 * 10.0**-decimals if several else 0.0)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    for code, want, line in code_blocks(page.read_text(encoding="utf-8")):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("\n" * line + code, str(page), "exec"), names)
        if want is not None:
            assert same_output(printed.getvalue(), want), f"{page.name}, line {line}, printed:\n{printed.getvalue()}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    links = [link for link in re.findall(r"\]\(([^)\s#]+)", text) if "://" not in link]
    assert not [link for link in links if not (page.parent / link).exists()]


def test_every_public_name_has_a_page():
    listed = re.findall(r"^   lrbtl\.(\w+)$", (ROOT / "docs" / "api.rst").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(lrbtl.__all__), "list public names in docs/api.rst"
    first = [name for name in dir(lrbtl) if name in lrbtl.__all__]
    assert sorted(listed[: len(first)]) == first, "lead docs/api.rst with the names used first"


def test_every_page_is_in_one_section_of_the_site_and_in_llms_txt():
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md")}
    trees = "\n".join(tree for text in pages.values() for tree in re.findall(r"^```\{toctree\}\n(.*?)^```", text, TREE))
    listed = re.findall(r"^(?:.*<)?([\w/-]+)>?$", trees, re.MULTILINE)
    assert sorted(set(pages) - {"index"}) == sorted(set(listed) - {"api", "pictures/index"}), "list pages in a toctree"
    assert len(listed) == len(set(listed))
    named = re.findall(r"^- \[([\w-]+)\]", (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8"), re.MULTILINE)
    sections = {"index", "tutorials", "how-to", "explanation", "develop"}
    assert sorted(set(pages) - sections) == sorted(set(named) - {"api"}), "list pages in docs/llms.txt"


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = doctest.testmod(importlib.import_module(name))
    assert not result.failed


def test_output_check_sees_differences():
    assert same_output("score 1.0000  a", "score 1.0001 a")
    assert not same_output("score 1.00 a", "score 1.10 a")
    assert not same_output("score a", "score b")
