"""Battles from files: CSV, JSON lines and Parquet, plain or gzipped, without a frame library for the first two."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.build import Axis
from lrbtl.data.encode import Coded, encode, read_counts
from lrbtl.data.exploded import warn_of_copies
from lrbtl.data.formats import read_tool_log
from lrbtl.data.frames import Columns, Found, describe_columns, find_columns
from lrbtl.data.outcomes import BothBad, Outcomes, is_both_bad
from lrbtl.data.tags import TAG_MODE, TagCoder, join_flags, read_tags
from lrbtl.errors import EmptyDataError, FileReadError, MissingExtraError, MissingValueError
from lrbtl.typing import Ints

CHUNK_ROWS = 1 << 16
LONGEST_LINE = 1 << 26  # characters; battle files may hold whole conversations
CSV, TSV, JSON_LINES, PARQUET = "csv", "tsv", "jsonl", "parquet"
FORMATS = {
    ".csv": CSV,
    ".txt": CSV,
    ".tsv": TSV,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}
MAGIC = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF",
}


BOTH_BAD_WORDS = {"tie": "kept as ties", "drop": "dropped", "outcome": "kept as an outcome of their own"}


@dataclass(frozen=True)
class FileBattles:
    """Battles of a file, and what was decided while reading, one sentence each."""

    battles: Battles
    said: list[str] = field(default_factory=list)


def read_battles(
    path: str | Path,
    columns: Columns | None = None,
    *,
    outcomes: Outcomes | None = None,
    ties: str = "half",
    both_bad: BothBad = "tie",
) -> FileBattles:
    r"""Return the battles of a file, with the columns that were guessed.

    Parameters
    ----------
    path : path
        .csv, .tsv, .jsonl, .ndjson or .parquet, each also with .gz; or what an evaluation tool wrote, see
        `read_tool_log`.
    columns : Columns, optional
        Names of the columns; common names are guessed.
    outcomes : dict, optional
        Meaning of further outcome words for the first model, None to drop such rows.
    ties : "half" or "drop"
    both_bad : "tie", "drop" or "outcome"
        What to do with votes that both are bad; see `Battles.from_frame`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("model_a,model_b,winner,category\nx,y,model_a,code\ny,x,tie,math\n")
    >>> found = read_battles(path)
    >>> found.battles.shape, found.said
    ((2, 2), ['guessed contexts from column category (Battles.from_frame names others)'])
    """
    path = Path(path)
    wanted = columns or Columns()
    log = read_tool_log(path)
    if log is not None:
        found = find_columns(wanted, list(log.columns))
        read: dict[str, Any] = {**found.__dict__, "outcomes": outcomes, "ties": ties, "both_bad": both_bad}
        read["tags"] = found.tags[0] if len(found.tags) == 1 else found.tags or None
        battles = Battles.from_frame(log.columns, cluster=log.cluster or None, **read)
        return FileBattles(battles, [*log.said(), *describe_columns(wanted, found)])
    with _named_errors(path):
        kind, is_gzip = _recognise(path)
        if kind == PARQUET:
            names, coded, counts = _read_parquet(path, is_gzip, wanted)
        else:
            names, coded, counts = _read_text(path, kind, is_gzip, wanted)
    said = describe_columns(wanted, names)
    words = coded[-1]
    bad = [k for k, label in enumerate(words.labels) if is_both_bad(label)]
    if n_bad := int(np.isin(words.codes, bad).sum()):
        said.append(f"{n_bad:,} both_bad votes {BOTH_BAD_WORDS[both_bad]}")
    if names.contexts and counts is None:
        warn_of_copies(coded[-3 - len(names.contexts) :], names.contexts)
    modes = ([TAG_MODE] if names.tags else []) + list(names.contexts)
    axes = [Axis(name, None, None, integer_codes=False) for name in ("models", *modes)]
    battles = Battles._from_columns(
        coded,
        axes,
        counts,
        outcome_name=names.winner,
        outcomes=outcomes,
        ties=ties,
        both_bad=both_bad,
        sides=(names.model_a, names.model_b),
    )
    return FileBattles(replace(battles, tag_mode=TAG_MODE) if names.tags else battles, said)


def _recognise(path: Path) -> tuple[str, bool]:
    """Return the format and whether the file is gzipped."""
    if path.is_dir():
        raise FileReadError("it is a folder; name a file.")
    with path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        raise EmptyDataError(f"{path}: the file is empty.")
    is_gzip = start.startswith(b"\x1f\x8b")
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
        if not is_gzip:
            raise FileReadError("it ends in .gz but is not gzipped; rename it, or compress it again.")
    if not suffixes or suffixes[-1] not in FORMATS:
        raise FileReadError(f"its ending is not known; use one of {', '.join(FORMATS)}, each also with .gz.")
    kind = FORMATS[suffixes[-1]]
    for magic, what in MAGIC.items():
        if start.startswith(magic) and not (kind == PARQUET and magic == b"PAR1"):
            raise FileReadError(f"it is {what}, not {kind}; give it its own ending or export it as CSV.")
    return kind, is_gzip


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Turn what readers raise into one error that names the file and says what to do."""
    try:
        yield
    except FileReadError as error:
        raise FileReadError(f"cannot read {path}: {error}") from error
    except FileNotFoundError as error:
        raise FileReadError(f"cannot read {path}: there is no such file.") from error
    except PermissionError as error:
        raise FileReadError(f"cannot read {path}: permission denied.") from error
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise FileReadError(f"cannot read {path}: the gzip data is damaged or cut off; copy the file again.") from error
    except UnicodeDecodeError as error:
        raise FileReadError(
            f"cannot read {path}: it is not UTF-8 text (byte {error.start} of a block); save it as UTF-8."
        ) from error
    except csv.Error as error:
        raise FileReadError(f"cannot read {path}: {error}; is it a text file with one battle per line?") from error
    except OSError as error:
        raise FileReadError(f"cannot read {path}: {error.strerror or error}.") from error


def _open(path: Path, is_gzip: bool) -> IO[bytes]:
    return gzip.open(path) if is_gzip else path.open("rb")  # type: ignore[return-value]


def _read_text(path: Path, kind: str, is_gzip: bool, wanted: Columns) -> tuple[Found, list[Coded], Any]:
    with _open(path, is_gzip) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="") as stream:
        lines = _lines(stream)
        if kind == JSON_LINES:
            names, rows = _json_rows(lines, wanted)
        else:
            names, rows = _csv_rows(lines, "\t" if kind == TSV else ",", wanted)
        coders = [TagCoder(name) if names.tags == (name,) else Coder(name) for name in names.order]
        n_rows = 0
        while chunk := list(islice(rows, CHUNK_ROWS)):
            for coder, column in zip(coders, zip(*chunk, strict=True), strict=True):
                coder.add(column, n_rows)
            n_rows += len(chunk)
    if not n_rows:
        raise EmptyDataError(f"{path}: there are no battles below the header.")
    coded = [coder.coded() for coder in coders]
    n_tags, counts = len(names.tags), None
    tagged, coded = coded[len(coded) - n_tags :], coded[: len(coded) - n_tags]
    if names.count is not None:
        last = coded.pop()
        counts = read_counts(np.array([_count(label) for label in last.labels])[last.codes], names.count)
    if n_tags > 1:
        tagged = [join_flags(dict(zip(names.tags, tagged, strict=True)))]
    return names, [*tagged, *coded], counts


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the lines of a text, none of which is read whole if it is far too long for a vote."""
    k = 0
    while line := stream.readline(LONGEST_LINE):
        k += 1
        if len(line) == LONGEST_LINE:
            raise FileReadError(
                f"line {k} has more than {LONGEST_LINE:,} characters; is it a log with one vote per line?"
            )
        yield line


def _count(label: Any) -> float:
    try:
        return float(label)
    except (TypeError, ValueError) as error:
        raise MissingValueError(f"a count is {label!r}; counts are 0, 1, 2, ...") from error


def _csv_rows(stream: Iterable[str], delimiter: str, wanted: Columns) -> tuple[Found, Iterator[tuple[str, ...]]]:
    reader = csv.reader(stream, delimiter=delimiter)
    header = next(reader, [])
    if "\0" in "".join(header):
        raise FileReadError("it holds binary data, not text.")
    names = find_columns(wanted, header)
    pick = itemgetter(*(header.index(name) for name in names.order))

    def rows() -> Iterator[tuple[str, ...]]:
        for row in reader:
            try:
                yield pick(row)
            except IndexError:
                if row:
                    raise FileReadError(
                        f"line {reader.line_num} has {len(row)} fields, but the header has {len(header)}."
                    ) from None

    return names, rows()


def _json_rows(stream: Iterable[str], wanted: Columns) -> tuple[Found, Iterator[tuple[Any, ...]]]:
    numbered = ((k, line) for k, line in enumerate(stream, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise EmptyDataError("the file holds no battles.")
    start = _json_object(*first)
    names = find_columns(wanted, list(start))
    pick = itemgetter(*names.order)

    def rows() -> Iterator[tuple[Any, ...]]:
        yield pick(start)
        for k, line in numbered:
            try:
                yield pick(_json_object(k, line))
            except KeyError as error:
                raise FileReadError(f"line {k} lacks {error.args[0]!r}, which the first line has.") from error

    return names, rows()


def _json_object(k: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise FileReadError(f"line {k} is not JSON ({error.msg}); each line must be one object.") from error
    except RecursionError as error:
        raise FileReadError(f"line {k} is nested too deeply to be a vote.") from error
    except ValueError as error:  # integers of thousands of digits
        raise FileReadError(f"line {k} holds a number that is too long to be one.") from error
    if not isinstance(value, dict):
        raise FileReadError(f'line {k} is not an object; each line must look like {{"model_a": ...}}.')
    return value


class Coder:
    """Codes of a column that comes in chunks: distinct values are numbered as they appear."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.index: dict[Any, int] = {}
        self.chunks: list[Ints] = []

    def add(self, values: Sequence[Any], first_row: int) -> None:
        """Add a chunk; an empty value is an error that names its row."""
        index = self.index
        try:
            for value in set(values).difference(index):
                if value is None or value == "" or value != value:
                    row = first_row + values.index(value) + 1
                    raise MissingValueError(f"{self.name} is empty in row {row}; fill or drop such rows first.")
                index[value] = len(index)
        except TypeError as error:
            raise FileReadError(f"{self.name} holds lists or objects; a name or a number is needed.") from error
        self.chunks.append(np.fromiter(map(index.__getitem__, values), np.int32, len(values)))

    def coded(self) -> Coded:
        """Return the whole column."""
        return Coded(np.concatenate(self.chunks), list(self.index), all_used=True)


def _read_parquet(path: Path, is_gzip: bool, wanted: Columns) -> tuple[Found, list[Coded], Any]:
    try:
        pa, pq = import_module("pyarrow"), import_module("pyarrow.parquet")
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: install it, or convert the file to CSV.") from error
    with _open(path, is_gzip) as raw:
        source = pa.BufferReader(raw.read()) if is_gzip else raw
        try:
            file = pq.ParquetFile(source)
            names = find_columns(wanted, file.schema_arrow.names)
            table = file.read(columns=names.order)
        except pa.ArrowInvalid as error:
            raise FileReadError("it is not a whole Parquet file; write it again.") from error
    if not table.num_rows:
        raise EmptyDataError(f"{path}: there are no battles in the file.")
    counts = read_counts(table.column(names.count), names.count) if names.count is not None else None
    plain = [name for name in names.order if name not in (names.count, *names.tags)]
    coded = [encode(table.column(name), name) for name in plain]
    if names.tags:
        tags = names.tags[0] if len(names.tags) == 1 else names.tags
        coded = [read_tags({name: table.column(name) for name in names.tags}, tags), *coded]
    return names, coded, counts
