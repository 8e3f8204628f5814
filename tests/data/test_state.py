"""Battles in a file: they come back as they were, and a file that is not whole is refused by name."""

import contextlib
import datetime
import json
import os
import zipfile
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrbtl
from lrbtl.data.state import HEADER, Source, read_state, write_state
from lrbtl.errors import FileReadError, LabelError, OutputPathError, StateVersionError

KINDS = st.one_of(st.text(), st.integers(), st.booleans(), st.dates(), st.floats(allow_nan=False))


def assert_same(one, other):
    """Every field is the same, with the types of labels."""
    for field in fields(one):
        if field.name != "cells":
            left, right = getattr(one, field.name), getattr(other, field.name)
            assert left == right and repr(left) == repr(right)
    for field in fields(one.cells):
        left, right = getattr(one.cells, field.name), getattr(other.cells, field.name)
        assert (left is None) == (right is None)
        if left is not None:
            np.testing.assert_array_equal(left, right)
            assert left.dtype == right.dtype and right.flags.writeable


@pytest.fixture
def battles():
    frame = {
        "model_a": ["x", "y", "x"],
        "model_b": ["y", "z", "z"],
        "winner": [1.0, 0.25, 0.5],
        "task": ["p", "q", "p"],
    }
    return lrbtl.Battles.from_frame(frame, contexts="task")


@pytest.fixture
def path(tmp_path, battles):
    battles.save(tmp_path / "state.lrbtl")
    return tmp_path / "state.lrbtl"


def test_battles_come_back_as_they_were(path, battles):
    assert_same(lrbtl.Battles.load(path), battles)
    assert_same(lrbtl.Battles.load(str(path)), battles)


@settings(max_examples=30, deadline=None)
@given(st.lists(KINDS, min_size=3, max_size=3, unique=True))
def test_labels_keep_their_types(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("state") / "state.lrbtl"
    battles = lrbtl.Battles.from_arrays([0, 1], [1, 2], [1, 0], [0, 0], models=labels, levels=[[("a", 1)]])
    battles.save(path)
    assert_same(lrbtl.Battles.load(path), battles)


def test_days_and_sets_are_labels_too(tmp_path):
    day = np.array(["2026-01-01", "2026-01-02"], dtype="datetime64[D]")
    others = [datetime.datetime(2026, 1, 1, 12), frozenset({"code", "hard"}), np.str_("word")]
    battles = lrbtl.Battles.from_arrays([0, 1], [1, 2], [1, 0], day, models=others)
    battles.save(tmp_path / "state.lrbtl")
    back = lrbtl.Battles.load(tmp_path / "state.lrbtl")
    assert back.models == battles.models and back.levels == battles.levels
    assert back.levels[0][0].dtype == battles.levels[0][0].dtype


def test_what_votes_carry_comes_back(tmp_path):
    frame = {
        "model_a": ["x", "y"],
        "model_b": ["y", "z"],
        "winner": ["both_bad", "tie"],
        "longer": [1.5, -2.0],
        "who": [7, 8],
    }
    options = {"both_bad": "outcome", "covariates": "longer", "position": True, "weight": "who", "cluster": "who"}
    battles = lrbtl.Battles.from_frame(frame, **options)
    battles.save(tmp_path / "state.lrbtl")
    assert_same(lrbtl.Battles.load(tmp_path / "state.lrbtl"), battles)


def test_a_label_that_cannot_be_saved_is_named(tmp_path):
    battles = lrbtl.Battles.from_arrays([0, 0], [1, 1], [1, 0], models=[complex(1, 2), 0])
    with pytest.raises(LabelError, match=r"\(1\+2j\), a complex"):
        battles.save(tmp_path / "state.lrbtl")
    assert not os.listdir(tmp_path)


def test_every_cut_is_noticed(path):
    whole = path.read_bytes()
    for size in [0, 1, 30, 39, 40, 41, *range(60, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(FileReadError, match="cannot read"):
            lrbtl.Battles.load(path)


def test_every_changed_byte_is_noticed_or_harmless(path, battles):
    whole = path.read_bytes()
    for at in range(0, len(whole), 7):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        with contextlib.suppress(FileReadError):
            assert_same(lrbtl.Battles.load(path), battles)


def rewrite(path, change):
    """Write the archive again with another header."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members[HEADER])
    change(header)
    members[HEADER] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda header: header.update(version=99, lrbtl="9.0"), StateVersionError, "lrbtl 9.0 wrote it"),
        (lambda header: header.update(format="something else"), FileReadError, "holds something else"),
        (lambda header: header["content"]["battles"].update(news=1), StateVersionError, "holds news"),
        (lambda header: header["content"]["battles"].update(models=["x", "y"]), FileReadError, "damaged"),
        (lambda header: header["content"]["battles"].update(mode_names=[]), FileReadError, "damaged"),
        (lambda header: header["content"]["battles"].pop("models"), FileReadError, "damaged"),
        (lambda header: header.pop("content"), FileReadError, "damaged"),
        (lambda header: header.update(content={"none": {}}), FileReadError, "damaged"),
        (lambda header: header.update(content=None), FileReadError, "damaged"),
    ],
)
def test_headers_are_checked(path, change, error, words):
    rewrite(path, change)
    with pytest.raises(error, match=words):
        lrbtl.Battles.load(path)


def test_other_files_are_named(tmp_path):
    (tmp_path / "log.csv").write_text("model_a,model_b,winner\n")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("something", "else")
    for name, words in [
        ("log.csv", "Battles.scan"),
        ("other.zip", "Battles.scan"),
        ("no", "no such file"),
        ("", "folder"),
    ]:
        with pytest.raises(FileReadError, match=words):
            lrbtl.Battles.load(tmp_path / name)


def test_a_file_that_cannot_be_written_is_an_error(tmp_path, battles):
    with pytest.raises(OutputPathError, match="does not exist"):
        battles.save(tmp_path / "none" / "state.lrbtl")


def test_sources_are_kept(path, battles):
    sources = [Source("day 1.csv", "ab" * 32, 3)]
    write_state(path, battles, sources)
    assert read_state(path, lrbtl.Battles)[1] == sources


def test_days_add_up(battles):
    days = [battles, battles, battles]
    assert sum(days).n_battles == 9
    assert_same(sum([battles]), battles)
    with pytest.raises(TypeError):
        "no battles" + battles
