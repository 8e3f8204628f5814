"""Imports run one way through the folders, the import is light, and every public name is documented with an example."""

import ast
import inspect
import subprocess
import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pytest

import lrbtl

ROOT = Path(__file__).parents[1] / "src" / "lrbtl"
FOLDERS = [path for path in sorted(ROOT.iterdir()) if path.is_dir() and path.name != "__pycache__"]
PUBLIC_MODULES = ("lrbtl", "lrbtl.show", "lrbtl.model", "lrbtl.inference")  # folders of modules that are names
HEAVY = ("pandas", "polars", "pyarrow", "matplotlib")


def test_imports_run_one_way_and_in_no_circle():
    """The contracts are in pyproject.toml; import-linter comes with the extra `dev`."""
    pytest.importorskip("importlinter")
    script = ROOT.parents[1] / "scripts" / "imports"
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_there_is_one_level_of_folders():
    assert not [path for folder in FOLDERS for path in folder.iterdir() if path.is_dir() and path.name != "__pycache__"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_says_what_it_is_and_nothing_else(folder):
    tree = ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))
    assert ast.get_docstring(tree) and len(tree.body) == 1
    assert folder.name not in lrbtl.__all__


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
    is_link = inspect.isclass(thing) and issubclass(thing, lrbtl.Link)  # the example of `Link` shows them all
    assert ">>> " in docstring or is_link, name


def test_public_names_are_listed_once():
    assert len(set(lrbtl.__all__)) == len(lrbtl.__all__)


def test_the_version_is_that_of_the_package():
    assert lrbtl.__version__ == version("lrbtl")


def test_lazy_names_are_those_of_the_stub():
    tree = ast.parse((ROOT / "__init__.pyi").read_text())
    stub = {
        (node.module, alias.name)
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module not in PUBLIC_MODULES
        for alias in node.names
    }
    assert {name for _, name in stub} == set(lrbtl.__all__)
    assert all(getattr(lrbtl, name) is getattr(import_module(module), name) for module, name in stub)
    assert lrbtl.plots.plot_scree is lrbtl.plot_scree and {"errors", "plots"} <= set(dir(lrbtl))
    shown = [name for name in dir(lrbtl) if name in lrbtl.__all__]
    assert 25 <= len(shown) <= 30 and {"links", "targets", "sampling", "simulate"} <= set(dir(lrbtl))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(lrbtl, "nothing")  # noqa: B009
