"""Dependencies run one way, the import is light, and every public name is documented with an example."""

import ast
import graphlib
import inspect
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import lrbtl

ROOT = Path(__file__).parents[1] / "src" / "lrbtl"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted(ROOT.rglob("*.py"))
    if path.name != "__init__.py"
}
LAZY = {("fitting", "rank_selection")}  # rank="auto" asks for the selection, which fits
CORE = {"arrowhead", "bounds", "covariance", "crossfit", "design", "fitting", "inference", "information", "krylov"}
CORE |= {"links", "naive", "newton", "onestep", "rank_selection", "ridge", "solvers", "tangent", "targets", "tucker"}
SHOWN = ("plot", "report", "leaderboards", "board", "compat_boards", "cli")
HEAVY = ("pandas", "polars", "pyarrow", "matplotlib")


def imported(path):
    """Modules of the package that a file imports anywhere, except for type checkers only."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test).endswith("TYPE_CHECKING")
        for statement in block.body
        for node in ast.walk(statement)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "lrbtl":
            inner = node.module.removeprefix("lrbtl").lstrip(".")
            names |= (
                {f"{inner}.{alias.name}".lstrip(".") for alias in node.names} if inner in ("", "_kernels") else {inner}
            )
        elif isinstance(node, ast.Import):
            names |= {alias.name.removeprefix("lrbtl.") for alias in node.names if alias.name.startswith("lrbtl.")}
    return names


GRAPH = {name: imported(path) for name, path in MODULES.items()}


def test_dependencies_run_one_way():
    graph = {name: {other for other in uses if (name, other) not in LAZY} for name, uses in GRAPH.items()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    assert set(MODULES) <= set(order)


def test_kernels_import_kernels_only():
    for path in (ROOT / "_kernels").glob("*.py*"):
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith(("from lrbtl", "import lrbtl", "cimport lrbtl"))]
        assert all("lrbtl._kernels" in line for line in lines), path.name


def test_the_core_knows_nothing_of_what_is_shown():
    assert set(MODULES) >= CORE
    for name in CORE:
        assert not [other for other in GRAPH[name] if other.startswith(SHOWN)], name


def test_errors_import_nothing():
    assert GRAPH["errors"] == set()


def test_import_is_light():
    code = (
        "import sys, time; start = time.perf_counter(); import lrbtl; took = time.perf_counter() - start; "
        f"print(took); print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    took, heavy = run.stdout.strip().splitlines()
    print(f"import lrbtl takes {float(took):.2f} s")
    assert heavy == "[]"


@pytest.mark.parametrize("name", lrbtl.__all__)
def test_public_names_are_documented_with_an_example(name):
    thing = getattr(lrbtl, name)
    docstring = inspect.getdoc(thing)
    assert docstring and docstring.splitlines()[0].endswith("."), name
    if inspect.isfunction(thing):
        assert ">>> " in docstring, name


def test_public_names_are_listed_once():
    assert len(set(lrbtl.__all__)) == len(lrbtl.__all__)


def test_the_map_names_every_module():
    table = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Map")[2]
    named = re.findall(r"`(\w+)`", table.replace("_kernels/", "").replace("src/lrbtl", ""))
    assert sorted(named) == sorted(name for name in MODULES if "." not in name)


def test_the_version_is_that_of_the_package():
    assert lrbtl.__version__ == version("lrbtl")


def test_modules_are_short():
    """A file has one subject and is usually under 400 lines."""
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in MODULES.items()}
    assert max(lengths.values()) <= 450, {name: n for name, n in lengths.items() if n > 450}


def test_lazy_names_are_those_of_the_stub():
    tree = ast.parse((ROOT / "__init__.pyi").read_text())
    stub = {
        (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "lrbtl"
        for alias in node.names
    }
    assert stub == {(f"lrbtl.{module}", name) for name, module in lrbtl._HOME.items()}
    assert all(getattr(lrbtl, name) is not None for name in lrbtl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lrbtl.nothing  # noqa: B018
