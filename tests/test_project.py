"""What the project says about itself in several places agrees, and tests use public names."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest

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


WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / "docs" / "gate.yml"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_what_they_use_and_end_in_time(path):
    text = path.read_text(encoding="utf-8")
    used = re.findall(r"uses: *(\S+)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)
    assert text.count("runs-on:") == text.count("timeout-minutes:")
    for line in re.findall(r"pip install (.*)", text) if path.name == "wheels.yml" else ():
        assert all("==" in part or part.startswith(("-r", ".ci", "dist/")) for part in line.split()), line


def test_build_tools_are_pinned_within_what_the_package_allows():
    pinned = (ROOT / ".ci" / "build.txt").read_text(encoding="utf-8").split("\n")
    names = {line.split("==")[0] for line in pinned if line and not line.startswith("#")}
    assert names >= {re.split("[<>=!]", need)[0] for need in PROJECT["build-system"]["requires"]}
    assert all("==" in line for line in pinned if line and not line.startswith("#"))


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("wins", "code"), [(190, 0), (100, 2), (20, 1)])
def test_the_example_of_a_gate_decides(tmp_path, wins, code):
    text = (ROOT / "docs" / "gate.yml").read_text(encoding="utf-8")
    step = text.split("id: gate")[1].split("run: |\n")[1].split("      - name:")[0]
    rows = [{"model_a": "new", "model_b": "old", "winner": "model_a" if k < wins else "model_b"} for k in range(200)]
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "lrbtl").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lrbtl "$@"\n')
    (tmp_path / "lrbtl").chmod(0o755)
    env = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(tmp_path / "out")}
    found = subprocess.run(["bash", "-e", "-c", textwrap.dedent(step)], cwd=tmp_path, env=env, capture_output=True)
    assert found.returncode == (0 if code == 2 else code), found.stderr
    assert (tmp_path / "out").read_text() == f"code={code}\n"
    decision = json.loads((tmp_path / "decision.json").read_text())
    if code == 2:
        assert decision["needed"]["planned"] > 0  # what the next step of the workflow prints


def test_releases_come_with_attestations_and_a_bill_of_materials():
    text = (ROOT / ".github" / "workflows" / "wheels.yml").read_text(encoding="utf-8")
    (job,) = re.findall(r"  provenance:\n(.*)", text, re.DOTALL)
    assert "attest-build-provenance" in job and "attestations: write" in job and "id-token: write" in job
    subjects = re.findall(r"subject-path: \|\n((?: {12}\S+\n)+)", job)[0].split()
    assert subjects == ["dist/*", "sbom.cdx.json"] and "cyclonedx-py environment" in job and "SHA256SUMS" in job
    assert re.search(r"^permissions:\n  contents: read$", text, re.MULTILINE)  # no job has more but by its own words


def test_every_test_that_the_table_of_findings_names_exists():
    text = (ROOT / "docs" / "robustness.md").read_text(encoding="utf-8")
    file, named = None, 0
    for path, name in re.findall(r"`([\w/.-]+\.py)?(?:::(test_\w+))?`", text):
        file = path or file
        if not path and not name:
            continue
        found = ROOT / "tests" / file
        assert found.is_file(), file
        assert not name or f"def {name}(" in found.read_text(encoding="utf-8"), f"{file}::{name}"
        named += bool(name)
    assert named > 60
