"""Logs in batches: files of Parquet, CSV and JSON lines, folders, streams, Arrow datasets and record batch readers."""

from __future__ import annotations

import glob
import gzip
import io
import os
import shutil
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import IO, Any
from weakref import finalize

from lrbtl.data.encode import Coded, Log, arrow_codes, encode, encode_arrow, encode_sets
from lrbtl.data.group import RowCounter
from lrbtl.data.labels import suggest_labels
from lrbtl.data.text import CSV, JSON_LINES, TSV, named_errors, text_batches, text_rows
from lrbtl.errors import (
    EmptyDataError,
    FileReadError,
    InputTypeError,
    MissingColumnError,
    MissingExtraError,
    MissingValueError,
    check_type,
    spelled,
)
from lrbtl.progress import as_progress
from lrbtl.typing import Longs, Progress

BATCH_ROWS = 1 << 18  # many enough for what is done once a batch not to matter, few enough to stay in the last cache
PAUSE = 1.0  # seconds between two lines of progress
PARQUET = "parquet"
FORMATS = {
    ".csv": CSV,
    ".txt": CSV,
    ".tsv": TSV,
    ".jsonl": JSON_LINES,
    ".ndjson": JSON_LINES,
    ".parquet": PARQUET,
    ".pq": PARQUET,
}
TOOL_ENDINGS = (".json", ".eval")  # files of evaluation tools, which `Battles.read` knows
MOST_FILES = 100_000  # in a folder
GZIP = b"\x1f\x8b"
MAGIC = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x89PNG": "a picture",
    b"%PDF": "a PDF",
}

Batch = list[Coded]
Where = Sequence[Any]


def open_log(source: Any, *, where: Where | None = None, progress: Progress | bool | None = None) -> Any:
    """Return a log to read battles from; a frame is returned as it is.

    Parameters
    ----------
    source : path, list of paths, binary stream, Arrow dataset or record batch reader
        A path is a file, a folder with files, or a pattern such as "logs/2026-*.parquet".
    where : conditions, optional
        ``[("day", ">=", 20), ...]``, all of which the rows must meet, or a pyarrow expression. Parquet and Arrow
        datasets only, of which parts that cannot meet them are not read.
    progress : True or callable, optional
        Called with a line of text now and then; True shows a line on stderr.
    """
    listener = as_progress(progress)
    found = _find_log(source)
    if found is None:
        if where is not None:
            raise InputTypeError("`where` is for files and Arrow datasets; filter a frame or a reader beforehand.")
        return source
    found.progress = listener
    if where is not None:
        found.restrict(where)
    return found


def _find_log(source: Any) -> BatchLog | None:
    if isinstance(source, str | os.PathLike):
        return _files_log(list_files(source))
    if isinstance(source, list | tuple) and source and all(isinstance(part, str | os.PathLike) for part in source):
        return _files_log([path for part in source for path in list_files(part)])
    if hasattr(source, "read") and not hasattr(source, "read_next_batch"):
        return _stream_log(source)
    if hasattr(source, "scanner") and hasattr(source, "schema"):
        return ArrowLog(source)
    if hasattr(source, "read_next_batch"):
        return ReaderLog(source)
    return None


def list_files(path: str | os.PathLike[str], *, tools: bool = False) -> list[Path]:
    """Return the files that a path names: itself, those in a folder and its folders, or those that match a pattern.

    With `tools`, files of a folder include those that only evaluation tools write.
    """
    path = as_path(path)
    if path.is_dir():
        files = sorted(file for file in _inside(path) if _holds_votes(file, tools) and not _is_hidden(file, path))
        if not files:
            raise FileReadError(f"cannot read {path}: the folder holds no file that ends in {_endings()}.")
        return files
    if glob.has_magic(str(path)) and not path.exists():
        files = sorted(Path(file) for file in glob.glob(str(path), recursive=True) if Path(file).is_file())
        if not files:
            raise FileReadError(f"cannot read {path}: no file matches this pattern.")
        return files
    return [path]


def _inside(folder: Path) -> Iterator[Path]:
    """Yield all that a folder holds; raise where it is far more than a log."""
    with named_errors(folder):
        for k, path in enumerate(folder.rglob("*")):
            if k >= MOST_FILES:
                raise FileReadError(f"it holds over {MOST_FILES:,} files; is it the folder of the log?")
            yield path


def as_path(path: str | os.PathLike[str]) -> Path:
    """Return a path; raise `FileReadError` where no file can have such a name."""
    check_type(path, (str, os.PathLike), "path", "name a file")  # a number would be an open file of the process
    try:
        found = Path(path)
        os.fsencode(found)
        found.is_dir()  # which raises where a name is too long, in some versions of Python
    except (ValueError, OSError) as error:
        raise FileReadError(f"cannot read {spelled(path)}: no file can have this name ({error}).") from error
    if "\0" in str(found):
        raise FileReadError(f"cannot read {spelled(path)}: no file can have this name.")
    return found


def _is_hidden(file: Path, folder: Path) -> bool:
    return not file.is_file() or any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _kind(path: Path) -> str | None:
    """Return the format that the ending of a file names, which may have .gz behind it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return FORMATS.get(suffixes[-1]) if suffixes else None


def _holds_votes(path: Path, tools: bool) -> bool:
    """Return whether a file of a folder may hold votes, by its ending."""
    ending = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "")
    return ending in FORMATS or (tools and ending in TOOL_ENDINGS)


def _endings() -> str:
    return f"{', '.join(FORMATS)}, each also with .gz"


def _files_log(paths: list[Path]) -> BatchLog:
    """Return one log of all files; those of Parquet are read as one dataset, whose folders may be named day=20."""
    logs: list[BatchLog] = []
    plain: list[Path] = []
    for path in paths:
        with named_errors(path):
            kind, is_gzip = recognise(path)
        if kind == PARQUET and not is_gzip:
            plain.append(path)
        else:
            logs.append(_gzipped_parquet(path) if kind == PARQUET else TextLog(path, kind, is_gzip))
    if plain:
        logs.insert(0, ParquetLog(plain))
    return logs[0] if len(logs) == 1 else JoinedLog(logs)


def _gzipped_parquet(path: Path) -> BatchLog:
    with named_errors(path), gzip.open(path) as stream:
        return UnpackedParquetLog(stream)  # type: ignore[arg-type]


def recognise(path: Path) -> tuple[str, bool]:
    """Return the format of a file and whether it is gzipped."""
    with path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        raise EmptyDataError(f"{path}: the file is empty.")
    is_gzip = start.startswith(GZIP)
    if path.suffix.lower() == ".gz" and not is_gzip:
        raise FileReadError("it ends in .gz but is not gzipped; rename it, or compress it again.")
    kind = _kind(path)
    if kind is None:
        raise FileReadError(f"its ending is not known; use one of {_endings()}.")
    for magic, what in MAGIC.items():
        if start.startswith(magic) and not (kind == PARQUET and magic == b"PAR1"):
            raise FileReadError(f"it is {what}, not {kind}; give it its own ending or export it as CSV.")
    return kind, is_gzip


class BatchLog(Log):
    """A log whose rows come in batches, which are counted as they come."""

    progress: Progress | None = None
    title: object = "the log"

    @abstractmethod
    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time; codes of damaged files may have no label."""

    def restrict(self, where: Where) -> None:
        """Leave out rows that do not meet conditions."""
        raise InputTypeError("`where` is for Parquet and Arrow datasets; filter other logs beforehand.")

    def read(self, names: Sequence[str], sets: Sequence[str] = ()) -> tuple[dict[str, Any], Longs]:
        """Return distinct rows and how often each happened."""
        counter, said = RowCounter(len(names)), time.monotonic()
        for batch in self.batches(names, sets):
            if not counter.n_rows:
                self.head: Mapping[str, Coded] = dict(zip(names, batch, strict=True))
            try:
                counter.add(batch)
            except FileReadError as error:
                raise FileReadError(f"cannot read {self.title}: {error}") from error
            if self.progress is not None and time.monotonic() - said > PAUSE:
                self.progress(f"read {counter.n_rows:,} rows")
                said = time.monotonic()
        if not counter.n_rows:
            raise EmptyDataError("there are no battles in the log; give at least one.")
        if self.progress is not None:
            self.progress(f"read {counter.n_rows:,} rows")
        columns, times = counter.rows()
        return dict(zip(names, columns, strict=True)), times


class JoinedLog(BatchLog):
    """Several logs, one after the other; the first one names the columns."""

    def __init__(self, logs: Sequence[BatchLog]) -> None:
        self.logs = logs

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self.logs[0].names

    def restrict(self, where: Where) -> None:
        """Leave out rows that do not meet conditions."""
        for log in self.logs:
            log.restrict(where)

    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time."""
        for log in self.logs:
            self.title: object = log.title
            yield from log.batches(names, sets)


# ------------------------------------------------------------------------------
# Parquet and Arrow: dictionary-coded columns go on as they are.
# ------------------------------------------------------------------------------


def _arrow(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: install it, or convert the file to CSV.") from error


@contextmanager
def _arrow_errors(what: object) -> Iterator[None]:
    pa = _arrow("pyarrow")
    try:
        with named_errors(what):
            yield
    except pa.ArrowInvalid as error:
        raise FileReadError(f"cannot read {what}: it is not whole, or not Parquet; write it again.") from error
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        raise FileReadError(f"cannot read {what}: {str(error).splitlines()[0]}") from error


def coded_batches(batches: Iterable[Any], names: Sequence[str], sets: Sequence[str]) -> Iterator[Batch]:
    """Yield columns of record batches, coded; a missing value is an error that says how many rows came before."""
    n_rows, known = 0, dict[str, tuple[Any, Coded]]()
    for batch in batches:
        try:
            coded = [_coded_array(batch.column(name), name, name in sets, known) for name in names]
        except MissingValueError as error:
            raise MissingValueError(f"in the rows after the first {n_rows:,}, {error}") from error
        n_rows += batch.num_rows
        yield coded


def _coded_array(array: Any, name: str, is_set: bool, known: dict[str, tuple[Any, Coded]]) -> Coded:
    """Return a column, coded; the labels of a dictionary are read once while batches share it."""
    if is_set:
        return encode_sets(array.to_pylist(), name)
    if not hasattr(array.type, "index_type"):
        return encode(_arrow("pyarrow").chunked_array([array]), name)
    dictionary, last = known.get(name, (None, None))
    if last is not None and not array.null_count and array.dictionary.equals(dictionary):
        return Coded(arrow_codes(array), last.labels, last.is_integer, last.all_used)
    coded = encode_arrow(array, name)
    if None not in coded.labels:
        known[name] = array.dictionary, coded
    return coded


class ArrowLog(BatchLog):
    """An Arrow dataset."""

    def __init__(self, dataset: Any, title: object = "the dataset") -> None:
        self.dataset: Any = dataset
        self.title: object = title
        self.where: Any = None

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        with _arrow_errors(self.title):
            return list(self.dataset.schema.names)

    def restrict(self, where: Where) -> None:
        """Leave out rows that do not meet conditions, and parts of files that hold none that do."""
        is_expression = isinstance(where, _arrow("pyarrow.dataset").Expression)
        try:
            self.where = where if is_expression else _arrow("pyarrow.parquet").filters_to_expression(list(where))
        except (TypeError, ValueError) as error:
            raise InputTypeError(f"`where` is not a list of conditions such as ('day', '>=', 20): {error}.") from error

    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time."""
        with _arrow_errors(self.title):
            yield from coded_batches(self.record_batches(list(names)), names, sets)

    def record_batches(self, names: list[str]) -> Iterator[Any]:
        """Yield record batches with some of the columns."""
        return self._scanned(self.dataset, names)

    def _scanned(self, part: Any, names: list[str], **options: Any) -> Iterator[Any]:
        options |= {"columns": names, "filter": self.where, "batch_size": BATCH_ROWS}
        yield from part.scanner(**options, batch_readahead=2, fragment_readahead=1).to_batches()


class ParquetLog(ArrowLog):
    """Parquet files, read as one dataset."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.paths: list[str] = [str(path) for path in paths]
        title = paths[0] if len(paths) == 1 else f"one of {len(paths)} files from {paths[0]} to {paths[-1]}"
        with _arrow_errors(title):
            super().__init__(
                _arrow("pyarrow.dataset").dataset(self.paths, format="parquet", partitioning="hive"), title
            )

    def record_batches(self, names: list[str]) -> Iterator[Any]:
        """Yield record batches with some of the columns, text as codes.

        Datasets can choose rows, add values from a folder's name and cast what one file holds otherwise than the
        first. Files that need none of that are read without them: batches are still in cache when they are counted.
        """
        ds, pq = _arrow("pyarrow.dataset"), _arrow("pyarrow.parquet")
        texts = _text_columns(self.dataset.schema, names)
        coded = ds.ParquetFileFormat(dictionary_columns=texts)
        dataset = ds.dataset(self.paths, format=coded, partitioning="hive")
        for part in dataset.get_fragments(self.where):
            if self.where is None and all(_is_field(part.physical_schema, dataset.schema, name) for name in names):
                file = pq.ParquetFile(part.path, read_dictionary=texts, pre_buffer=False)  # a buffer of all row groups
                batches = file.iter_batches(BATCH_ROWS, columns=names)
                yield from _ahead(batches) if _arrow("pyarrow").cpu_count() > 1 else batches
            else:
                yield from self._scanned(part, names, schema=dataset.schema)


def _ahead(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches, each of which is read while the one before it is counted."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = pool.submit(next, batches, None)
            yield batch


def _is_field(schema: Any, wanted: Any, name: str) -> bool:
    """Whether a schema has one column of a name, of the type wanted."""
    places = schema.get_all_field_indices(name)
    return len(places) == 1 and schema.field(places[0]).type == wanted.field(name).type


def _text_columns(schema: Any, names: Sequence[str]) -> list[str]:
    types = _arrow("pyarrow.types")
    texts = (types.is_string, types.is_large_string, types.is_binary)
    return [name for name in names if any(is_text(schema.field(name).type) for is_text in texts)]


class UnpackedParquetLog(ParquetLog):
    """A Parquet file out of a stream, which is copied to the disk: such files are read from their end."""

    def __init__(self, stream: IO[bytes]) -> None:
        folder = tempfile.mkdtemp(prefix="lrbtl-")
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder, "unpacked.parquet")
        with path.open("wb") as copy:
            shutil.copyfileobj(stream, copy, 1 << 24)
        super().__init__([path])


class ReaderLog(BatchLog):
    """A record batch reader, which can be read once."""

    title: object = "the record batches"

    def __init__(self, reader: Any) -> None:
        self.reader = reader

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.reader.schema.names)

    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time."""
        with _arrow_errors(self.title):
            yield from coded_batches(self.reader, names, sets)


# ------------------------------------------------------------------------------
# Text: CSV and JSON lines.
# ------------------------------------------------------------------------------


class TextLog(BatchLog):
    """A text file."""

    path: Path
    kind: str
    is_gzip: bool

    def __init__(self, path: Path, kind: str, is_gzip: bool) -> None:
        self.path, self.kind, self.is_gzip = path, kind, is_gzip

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        with named_errors(self.path), self._open() as raw:
            return text_rows(raw, self.kind)[0]

    def _open(self) -> IO[bytes]:
        return gzip.open(self.path) if self.is_gzip else self.path.open("rb")  # type: ignore[return-value]

    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time."""
        with named_errors(self.path), self._open() as raw:
            header, rows = text_rows(raw, self.kind)
            for name in names:
                if name not in header:
                    raise MissingColumnError(
                        f"{self.path} has no column {name!r}; {suggest_labels(name, header)}",
                        argument="column",
                        value=name,
                    )
            yield from text_batches(rows, names, sets)


class StreamLog(BatchLog):
    """A stream of text such as standard input, which can be read once."""

    def __init__(self, stream: IO[bytes], kind: str) -> None:
        with named_errors("the stream"):
            self._names, self._rows = text_rows(stream, kind)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return self._names

    def batches(self, names: Sequence[str], sets: Sequence[str] = ()) -> Iterator[Batch]:
        """Yield coded columns of some rows at a time."""
        with named_errors("the stream"):
            yield from text_batches(self._rows, names, sets)


def _stream_log(stream: Any) -> BatchLog:
    """Return the log of a binary stream; its content is recognised by its first bytes."""
    if isinstance(stream, io.TextIOBase):  # such as open(path) without "rb": its bytes, or its text
        stream = getattr(stream, "buffer", None) or io.BytesIO(stream.read().encode("utf-8", "surrogatepass"))
    if not (hasattr(stream, "peek") or hasattr(stream, "readinto")):
        raise InputTypeError(
            f"cannot read votes from {spelled(stream)}: give a binary stream, such as open(path, 'rb')."
        )
    with named_errors("the stream"):
        raw = stream if hasattr(stream, "peek") else io.BufferedReader(stream)
        if raw.peek(2).startswith(GZIP):
            raw = io.BufferedReader(gzip.GzipFile(fileobj=raw))
        start = raw.peek(1)
        if not start:
            raise EmptyDataError("the stream is empty.")
        return UnpackedParquetLog(raw) if start.startswith(b"PAR1") else StreamLog(raw, _text_kind(start))


def _text_kind(start: bytes) -> str:
    """Return the format of a text from its first bytes."""
    for magic, what in MAGIC.items():
        if start.startswith(magic):
            raise FileReadError(f"it is {what}, not a log.")
    if start.lstrip().startswith(b"{"):
        return JSON_LINES
    header = start.split(b"\n", 1)[0]
    return TSV if b"\t" in header and b"," not in header else CSV
