"""Text with one battle per line, CSV or JSON lines, read in chunks without a frame library."""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from operator import itemgetter
from typing import IO, Any

from lrbtl.data.encode import Coded, encode, encode_sets
from lrbtl.errors import EmptyDataError, FileReadError, MissingColumnError, MissingValueError

CHUNK_ROWS = 1 << 16
LONGEST_LINE = 1 << 26  # characters; logs may hold whole conversations
CSV, TSV, JSON_LINES = "csv", "tsv", "jsonl"

Rows = Callable[[Sequence[str]], Iterator[tuple[Any, ...]]]  # the values of some columns, row by row


@contextmanager
def named_errors(path: object) -> Iterator[None]:
    """Turn what readers raise into one error that names the file and says what to do."""
    try:
        yield
    except FileReadError as error:
        text = str(error)
        raise FileReadError(text if text.startswith("cannot read") else f"cannot read {path}: {text}") from error
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


def text_rows(raw: IO[bytes], kind: str) -> tuple[list[str], Rows]:
    """Return the columns of a text, and what yields the rows of some of them, once."""
    lines = _lines(raw)
    return _json_rows(lines) if kind == JSON_LINES else _csv_rows(lines, "\t" if kind == TSV else ",")


def _lines(raw: IO[bytes]) -> Iterator[str]:
    """Yield the lines of a text, none of which is read whole if it is far too long for a vote."""
    stream = io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")
    try:
        k = 0
        while line := stream.readline(LONGEST_LINE):
            k += 1
            if len(line) == LONGEST_LINE:
                raise FileReadError(
                    f"line {k} has over {LONGEST_LINE:,} characters; is it a log with one vote per line?"
                )
            yield line
    finally:
        with suppress(ValueError):  # its owner closed the file
            stream.detach()


def _csv_rows(lines: Iterable[str], delimiter: str) -> tuple[list[str], Rows]:
    reader = csv.reader(lines, delimiter=delimiter)
    header = next(reader, [])
    if "\0" in "".join(header):
        raise FileReadError("it holds binary data, not text.")

    def rows(names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        if repeated := [name for name in names if header.count(name) > 1]:
            raise MissingColumnError(f"column {repeated[0]!r} occurs more than once; rename one of them.")
        pick = _picker([header.index(name) for name in names])
        for row in reader:
            try:
                yield pick(row)
            except IndexError:
                if row:
                    raise FileReadError(
                        f"line {reader.line_num} has {len(row)} fields, but the header has {len(header)}."
                    ) from None

    return header, rows


def _json_rows(lines: Iterable[str]) -> tuple[list[str], Rows]:
    numbered = ((k, line) for k, line in enumerate(lines, 1) if line.strip())
    first = next(numbered, None)
    if first is None:
        raise EmptyDataError("the file holds no battles.")
    start = _json_object(*first)

    def rows(names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        pick = _picker(names)
        yield pick(start)
        for k, line in numbered:
            try:
                yield pick(_json_object(k, line))
            except KeyError as error:
                raise FileReadError(f"line {k} lacks {error.args[0]!r}, which the first line has.") from error

    return list(start), rows


def _picker(keys: Sequence[Any]) -> Callable[[Any], tuple[Any, ...]]:
    if len(keys) == 1:
        return lambda row: (row[keys[0]],)
    return itemgetter(*keys)


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


def text_batches(rows: Rows, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[list[Coded]]:
    """Yield coded columns of some rows at a time; an empty value is an error that names its row, but not in `sets`."""
    n_rows, source = 0, rows(names)
    while chunk := list(islice(source, CHUNK_ROWS)):
        yield [
            encode_sets(column, name) if name in sets else _coded(list(column), name, n_rows)
            for name, column in zip(names, zip(*chunk, strict=True), strict=True)
        ]
        n_rows += len(chunk)


def _coded(values: list[Any], name: str, first_row: int) -> Coded:
    for empty in ("", None):
        if empty in values:
            row = first_row + values.index(empty) + 1
            raise MissingValueError(f"{name} is empty in row {row}; fill or drop such rows first.")
    return encode(values, name)
