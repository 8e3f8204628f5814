"""Battles out of logs, and in one file of their own: arrays and labels without pickle, whole, checked on reading."""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from importlib.metadata import version
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lrbtl.data.cells import BOTH_BAD, Cells, context_starts
from lrbtl.data.covariates import Covariate
from lrbtl.data.logs import as_path
from lrbtl.errors import FileReadError, LabelError, LrbtlError, StateVersionError
from lrbtl.files import write_whole

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles

FORMAT, VERSION = "lrbtl battles", 1  # the number goes up when an older lrbtl would misread a file
HEADER = "lrbtl.json"  # the first member of the archive: what the arrays are, labels, sources
MAGIC = b"PK\x03\x04"
NAME_AT = 30  # where an archive names its first member
DAMAGE: tuple[type[Exception], ...] = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
)
DAMAGE += (AttributeError, ArithmeticError, LrbtlError)  # what readers of an archive raise at changed bytes
Watched = dict[str, Any]  # what a watch remembers, as JSON
MOMENTS: dict[str, type] = {"datetime": datetime, "date": date}


def _types(battles: type) -> dict[str, type]:
    """Return what a file may hold, by name."""
    return {"battles": battles, "cells": Cells, "covariate": Covariate}


@dataclass(frozen=True)
class Source:
    """A file whose battles went into a state."""

    name: str
    digest: str  # SHA-256 of its bytes
    n_battles: int


def is_state(path: str | os.PathLike[str]) -> bool:
    """Return whether a file can be read and begins like one that `Battles.save` wrote."""
    try:
        return _begins_like_state(path)
    except OSError:  # which those who read logs report
        return False


def _begins_like_state(path: str | os.PathLike[str]) -> bool:
    with open(path, "rb") as stream:
        start = stream.read(NAME_AT + len(HEADER))
    return start.startswith(MAGIC) and start[NAME_AT:] == HEADER.encode()


def write_state(
    path: str | os.PathLike[str], battles: Battles, sources: Sequence[Source] = (), watches: Sequence[Watched] = ()
) -> None:
    """Write battles, which files they came from, and what was watched, into one file: all of it or nothing."""
    arrays: list[NDArray[Any]] = []
    header = {
        "format": FORMAT,
        "version": VERSION,
        "lrbtl": version("lrbtl"),
        "sources": [[source.name, source.digest, source.n_battles] for source in sources],
        **({"watches": list(watches)} if watches else {}),
        "content": _packed(battles, arrays, _types(type(battles))),
    }
    write_whole(path, lambda scratch: _write(scratch, json.dumps(header, ensure_ascii=False), arrays))


def _write(path: Path, header: str, arrays: Sequence[NDArray[Any]]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER), header.encode("utf-8", "surrogatepass"))
        for k, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(_member(k)), "w", force_zip64=True) as stream:
                stream.write(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _member(k: int) -> str:
    return f"array{k}"


def _packed(value: Any, arrays: list[NDArray[Any]], types: dict[str, type]) -> Any:
    """Return a value as JSON that names its type; arrays are put aside and named by their place."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        plain = all(isinstance(part, str) for part in value)
        return list(value) if plain else [_packed(part, arrays, types) for part in value]
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays.append(value)
        return {"array": [len(arrays) - 1, value.dtype.str, list(value.shape)]}
    if isinstance(value, np.datetime64):
        return {"datetime64": [str(value), np.datetime_data(value.dtype)[0]]}
    if isinstance(value, np.generic):
        return _packed(value.item(), arrays, types)
    if isinstance(value, date):
        kind = "datetime" if isinstance(value, datetime) else "date"
        return {kind: value.isoformat()}
    if isinstance(value, frozenset):
        return {"frozenset": [_packed(part, arrays, types) for part in sorted(value, key=repr)]}
    if isinstance(value, dict):
        return {"dict": [[_packed(key, arrays, types), _packed(part, arrays, types)] for key, part in value.items()]}
    name = next((name for name, kind in types.items() if type(value) is kind), None)
    if name is not None:
        content = {field.name: _packed(getattr(value, field.name), arrays, types) for field in fields(value)}
        return {name: {key: part for key, part in content.items() if part is not None}}
    raise LabelError(f"{value!r}, a {type(value).__name__}, cannot be saved; convert such labels to strings.")


def read_state(path: str | os.PathLike[str], kind: type[Battles]) -> tuple[Battles, list[Source]]:
    """Return the battles that `write_state` wrote, made by their class, checked, and the files that they came from."""
    path = as_path(path)
    try:
        if not _begins_like_state(path):
            raise FileReadError("it is not a file that battles.save() wrote; logs are read by Battles.scan().")
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(HEADER).decode("utf-8", "surrogatepass"))
            _check_version(header)
            battles = _unpacked(header["content"], archive, _types(kind))
            sources = [Source(*source) for source in header["sources"]]
        _check_codes(battles)
        return battles, sources
    except FileReadError as error:
        raise type(error)(f"cannot read {path}: {error}") from error
    except FileNotFoundError as error:
        raise FileReadError(f"cannot read {path}: there is no such file.") from error
    except IsADirectoryError as error:
        raise FileReadError(f"cannot read {path}: it is a folder; name a file.") from error
    except DAMAGE as error:
        raise FileReadError(f"cannot read {path}: it is damaged or cut off; take a copy, or build it again.") from error
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror or error}.") from error


def read_watches(path: str | os.PathLike[str]) -> list[Watched]:
    """Return what was watched in a state that can be read."""
    with zipfile.ZipFile(as_path(path)) as archive:
        header = json.loads(archive.read(HEADER).decode("utf-8", "surrogatepass"))
    return [dict(entry) for entry in header.get("watches", [])]


def _check_version(header: dict[str, Any]) -> None:
    if header["format"] != FORMAT:
        raise FileReadError(f"it holds {header['format']}, not battles.")
    if header["version"] > VERSION:
        raise StateVersionError(f"lrbtl {header['lrbtl']} wrote it in a newer format; install that version or a later.")


def _unpacked(tree: Any, archive: zipfile.ZipFile, types: dict[str, type]) -> Any:
    if isinstance(tree, list):
        return tuple(part if type(part) is str else _unpacked(part, archive, types) for part in tree)
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        k, dtype, shape = content
        return np.frombuffer(archive.read(_member(k)), np.dtype(dtype)).reshape(shape).copy()
    if kind == "datetime64":
        return np.datetime64(*content)
    if kind in MOMENTS:
        return MOMENTS[kind].fromisoformat(content)  # type: ignore[attr-defined]
    if kind == "frozenset":
        return frozenset(_unpacked(content, archive, types))
    if kind == "dict":
        return {_unpacked(key, archive, types): _unpacked(part, archive, types) for key, part in content}
    known = {field.name for field in fields(types[kind])}
    if unknown := sorted(set(content) - known):
        raise StateVersionError(f"it holds {unknown[0]}, which this version does not know; install a newer lrbtl.")
    return types[kind](**{name: _unpacked(part, archive, types) for name, part in content.items()})


def _check_codes(battles: Any) -> None:
    """Raise `ValueError` where cells do not fit each other and the labels."""
    cells, n_contexts = battles.cells, prod(map(len, battles.levels))
    within = [(cells.context, n_contexts), (cells.a, len(battles.models)), (cells.b, len(battles.models))]
    columns = [] if cells.clusters is None else list(cells.clusters.T)
    clusters = list(zip(columns, battles.cluster_labels, strict=True))
    per_cell = [cells.context, cells.a, cells.b, cells.y, cells.count]
    if not (
        len({array.shape for array in per_cell}) == 1
        and all(0 <= codes.min() <= codes.max() < size for codes, size in within)
        and np.all(cells.a < cells.b)
        and np.all(((cells.y >= 0.0) & (cells.y <= 1.0)) | (cells.y == BOTH_BAD))
        and cells.count.min() > 0
        and np.array_equal(cells.start, context_starts(cells.context, n_contexts))
        and np.all(np.diff(cells.context) >= 0)
        and len(battles.mode_names) == len(battles.levels)
        and _fits(cells.slopes, (cells.n_cells, len(battles.covariates)))
        and _fits(cells.clusters, (cells.n_cells, len(battles.cluster_labels)))
        and (cells.weight is None or (cells.weight.shape == cells.a.shape and cells.weight.min() > 0))
        and all(0 <= codes.min() <= codes.max() < len(labels) for codes, labels in clusters)
    ):
        raise ValueError("cells and labels do not belong together")


def _fits(table: NDArray[Any] | None, shape: tuple[int, int]) -> bool:
    """Return whether a table has a shape; one without columns is none."""
    return shape[1] == 0 if table is None else table.shape == shape
