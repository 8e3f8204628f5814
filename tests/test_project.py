"""What the project says about itself in several places agrees, and tests use public names."""

import ast
import re
import tomllib
from pathlib import Path

import lrbtl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def requirements(group):
    """Requirements of a dependency group, with those of the groups that it includes."""
    found = set()
    for entry in PROJECT["dependency-groups"][group]:
        found |= {entry} if isinstance(entry, str) else requirements(entry["include-group"])
    return found


def test_groups_and_extras_of_one_name_agree():
    extras = PROJECT["project"]["optional-dependencies"]
    assert set(extras) <= set(PROJECT["dependency-groups"])
    for name, extra in extras.items():
        assert set(extra) == requirements(name), name


def test_the_citation_has_the_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.*)$", text, re.MULTILINE) == [lrbtl.__version__]


def nodes(path):
    return ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def private_imports(path):
    """Private names that a test imports from the package; modules of kernels are no names."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module and re.match(r"lrbtl\b(?!\._kernels)", node.module):
            yield from (alias.name for alias in node.names if re.match("_(?!kernels$)", alias.name))


def test_tests_import_public_names_only():
    tests = ROOT / "tests"
    assert not [path.relative_to(tests).as_posix() for path in tests.rglob("*.py") if any(private_imports(path))]


def test_the_package_keeps_the_promises_of_its_security_page():
    refused = {"asyncio", "ftplib", "http", "marshal", "pickle", "requests", "shelve", "socket", "subprocess", "urllib"}
    for path in (ROOT / "src").rglob("*.py"):
        for node in nodes(path):
            if isinstance(node, ast.Import):
                assert not refused & {alias.name.split(".")[0] for alias in node.names}, path
            elif isinstance(node, ast.ImportFrom):
                assert node.module.split(".")[0] not in refused, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "__import__"}, path
