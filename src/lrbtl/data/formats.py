"""Files that evaluation tools write, as plain columns of battles: recognised by their keys.

A format turns one record into rows with `model_a`, `model_b` and `winner` (a word, or a number for `model_a`), and
whatever else it knows: `category`, `judge`, `question` (votes on one question are not independent), counts of style.
Every command then reads them like any other table.
"""

from __future__ import annotations

import gzip
import json
import os
import shlex
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from lrbtl.data.labels import some_of
from lrbtl.data.text import LONGEST_LINE, named_errors
from lrbtl.errors import EmptyDataError, FileReadError, MissingExtraError

Record = Mapping[str, Any]
Row = dict[str, Any]

STYLE = {
    "tokens": "sum_assistant_{}_tokens",
    "headers": "header_count_{}",
    "lists": "list_count_{}",
    "bold": "bold_count_{}",
}
LINES = (".jsonl", ".ndjson")
EVAL = ".eval"
ZSTD, LOCAL_HEADER = 93, 30  # of zip archives: how a file is compressed, and bytes before its name
MOST_BYTES = 1 << 31  # of a file that can only be read whole


@dataclass(frozen=True)
class ToolLog:
    """Battles as an evaluation tool wrote them, as plain columns.

    Attributes
    ----------
    tool : str
        What the file is.
    columns : dict
        From name to values, all of one length.
    cluster : tuple of str
        Columns within which votes are not independent.
    covariates : dict
        From name to the columns of the two sides, for `Battles.from_frame(covariates=)`.
    dropped : dict
        Why records were left out, and how many.
    weight : str or None
        Column of weights, where the tool has some.
    notes : tuple of str
        What else was decided.
    """

    tool: str
    columns: dict[str, list[Any]]
    cluster: tuple[str, ...] = ()
    covariates: dict[str, tuple[str, str]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    weight: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns["winner"])

    def said(self) -> list[str]:
        """Return what was read, one sentence each."""
        return [f"read {self.n_rows:,} battles from {self.tool}", *self.decided()]

    def decided(self) -> list[str]:
        """Return what was left out or weighted, one sentence each."""
        return [*(f"{count:,} records left out: {why}" for why, count in self.dropped.items()), *self.notes]


class Skip(Exception):
    """A record that holds no vote, and why."""


def read_tool_log(path: str | Path | Sequence[Path], scorer: str | None = None) -> ToolLog | None:
    r"""Return the battles of files that an evaluation tool wrote; None where they are plain tables, or none at all.

    Of several files, those that are no votes of the tool of the first such file are left out, and said.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "annotations.json")
    >>> _ = path.write_text('[{"generator_1": "x", "generator_2": "y", "preference": 2.0, "instruction": "Hello"}]')
    >>> log = read_tool_log(path)
    >>> log.tool, log.columns["winner"]
    ('AlpacaEval annotations', [0.0])
    """
    if isinstance(path, str | Path):
        known, records = open_records(Path(path))
        if known is None:
            return None
        with named_errors(path):
            return collect(known, records, scorer)
    opened = [(file, *open_records(file, only_tools=True)) for file in path]
    tools = [known for _, known, _ in opened if known is not None]
    if not tools:
        return None
    kept = [(file, records) for file, known, records in opened if known is tools[0]]
    log = collect(tools[0], chain.from_iterable(_named_records(file, records) for file, records in kept), scorer)
    other = [file.name for file, known, _ in opened if known is not tools[0]]
    notes = (f"left out {len(other)} files that are not {log.tool}: {some_of(other, 3)}",) if other else ()
    return replace(log, notes=(*log.notes, *notes))


def _named_records(file: Path, records: Iterable[Record]) -> Iterator[Record]:
    with named_errors(file):
        yield from records


def open_records(path: Path, *, only_tools: bool = False) -> tuple[Format | None, Iterator[Record]]:
    """Return the format of a file and its records; None for plain tables, and, of many files, for what is no votes."""
    kind = next((suffix.lower() for suffix in reversed(path.suffixes) if suffix.lower() != ".gz"), "")
    if not path.is_file() or kind not in (".json", ".parquet", ".pq", EVAL, *LINES):
        return None, iter(())
    with named_errors(path):
        if kind in (".json", EVAL):
            try:
                records = _whole_records(path) if kind == ".json" else _eval_records(path)
                first = next(records, {})
            except (FileReadError, EmptyDataError):
                if only_tools:
                    return None, iter(())
                raise
            found = find_format(first) or (PLAIN if set(first) >= PLAIN.keys else None)
            if found is None and not only_tools:
                tools = ", ".join(dict.fromkeys(known.tool for known in KNOWN))
                raise FileReadError(
                    f"it is neither a list of battles with model_a, model_b and winner nor of a known kind: {tools}."
                )
            return found, chain([first], records)
        try:
            records = _line_records(path) if kind in LINES else _parquet_records(path)
            first = next(records, {})
        except (FileReadError, OSError, EOFError):
            return None, iter(())
        return find_format(first), chain([first], records)


def find_format(record: Record) -> Format | None:
    """Return the format that a record is of, by its keys.

    >>> find_format({"model": "x", "games": [], "judge": "z"}).tool
    'arena-hard-auto judgments'
    """
    return next((known for known in KNOWN if known.keys <= set(record)), None)


def _whole_records(path: Path) -> Iterator[Record]:
    with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as stream:
        text = stream.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise FileReadError(
            f"it holds more than {MOST_BYTES:,} bytes in one piece; write one record per line (.jsonl)."
        )
    if not text.strip():
        raise EmptyDataError(f"{path}: the file is empty.")
    try:
        value = json.loads(text)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and depths of thousands
        raise FileReadError(f"it is not JSON ({error}); write it again.") from error
    yield from (record for record in (value if isinstance(value, list) else [value]) if isinstance(record, dict))


def _eval_records(path: Path) -> Iterator[Record]:
    """Yield the one record of an Inspect log in its own archive: the header, and its samples."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            samples = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
            size = sum(archive.getinfo(name).file_size for name in samples)
            if size > MOST_BYTES:
                raise FileReadError(f"its samples have {size:,} bytes, more than {MOST_BYTES:,}; split the log.")
            header = json.loads(_member(path, archive, "header.json"))
            read = [json.loads(_member(path, archive, name)) for name in samples]
    except (NotImplementedError, ImportError) as error:
        raise FileReadError(
            "it is compressed in a way that this Python cannot read; convert it: "
            f"inspect log convert {shlex.quote(str(path))} --to json --output-dir converted"
        ) from error
    except (zipfile.BadZipFile, KeyError, ValueError, RecursionError, RuntimeError) as error:
        raise FileReadError(f"it is not an Inspect log ({error}); write it again.") from error
    if not isinstance(header, dict):
        raise FileReadError("it is not an Inspect log: its header is not an object.")
    yield {"eval": header.get("eval", {}), "samples": [sample for sample in read if isinstance(sample, dict)]}


def _member(path: Path, archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive; Inspect compresses by zstd, which pyarrow reads where Python does not."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTD:
        return archive.read(name)
    pa = import_module("pyarrow")
    with path.open("rb") as stream:
        stream.seek(info.header_offset)
        start = stream.read(LOCAL_HEADER)
        stream.seek(sum(struct.unpack("<HH", start[-4:])), os.SEEK_CUR)  # behind the name and the extra field
        packed = stream.read(info.compress_size)
    try:
        return bytes(pa.CompressedInputStream(pa.BufferReader(packed), "zstd").read(info.file_size))
    except OSError as error:
        raise ValueError(f"{name} is damaged: {error}") from error


def _line_records(path: Path) -> Iterator[Record]:
    """Yield the objects of a file line by line; what is wrong with a plain table its own reader will say."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as stream:
        k = 0
        while line := stream.readline(LONGEST_LINE):
            k += 1
            if len(line) == LONGEST_LINE:
                raise FileReadError(f"line {k} has over {LONGEST_LINE:,} bytes; is it a log with one vote per line?")
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise FileReadError(f"line {k} is not JSON; each line must be one object.") from error
            if isinstance(record, dict):
                yield record


def _parquet_records(path: Path) -> Iterator[Record]:
    """Yield rows of a Parquet file of battles with `conv_metadata`: the one format that comes as Parquet."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Parquet files need pyarrow: install it, or convert the file to CSV.") from error
    if path.suffix.lower() == ".gz":
        return
    try:
        file = pq.ParquetFile(path)
    except pa.ArrowInvalid:  # the reader of plain tables will say what is wrong
        return
    names = [name for name in ARENA_KEYS if name in file.schema_arrow.names]
    if "conv_metadata" in names:
        for batch in file.iter_batches(columns=names):
            yield from batch.to_pylist()


def collect(known: Format, records: Iterable[Record], scorer: str | None = None) -> ToolLog:
    """Return the rows of all records as columns; those that some rows lack are left out, but not models and winner."""
    rows: list[Row] = []
    dropped: dict[str, int] = {}
    for k, record in enumerate(records, 1):
        try:
            rows += inspect_rows(record, scorer, dropped) if known is INSPECT else known.rows(record)
        except Skip as reason:
            dropped[str(reason)] = dropped.get(str(reason), 0) + 1
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise FileReadError(
                f"record {k} is not as {known.tool} are: {type(error).__name__} {error}; leave it out, or write "
                "model_a, model_b and winner into a table."
            ) from error
    if not rows:
        reasons = "; ".join(f"{count:,} records: {why}" for why, count in dropped.items())
        raise EmptyDataError(f"there are no battles in these {known.tool}" + (f" ({reasons})." if reasons else "."))
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    columns = {name: values for name, values in columns.items() if None not in values or name in ARENA_KEYS[:3]}
    covariates = {
        name: (f"{name}_a", f"{name}_b") for name in STYLE if f"{name}_a" in columns and f"{name}_b" in columns
    }
    cluster = tuple(name for name in known.cluster if len(set(columns.get(name, ()))) > 1)
    weights = columns.get("weight", [])
    if known.weight_note and (heavy := sum(weight != 1 for weight in weights)):
        return ToolLog(known.tool, columns, cluster, covariates, dropped, "weight", (f"{heavy:,} {known.weight_note}",))
    if known.weight_note:
        columns.pop("weight", None)
    return ToolLog(known.tool, columns, cluster, covariates, dropped)


# ------------------------------------------------------------------------------
# The formats.
# ------------------------------------------------------------------------------


def _total(count: Any) -> float:
    """Return a count, or the sum of the counts by kind, such as {"h1": 2, "h2": 0}."""
    return float(sum(x for x in count.values() if x) if isinstance(count, Mapping) else count)


def _tags(record: Record) -> list[str]:
    """Return the tags of an LMArena conversation: of each kind of `category_tag`, what is true."""
    found = ["code"] if record.get("is_code") else []
    for tags in (record.get("category_tag") or {}).values():
        found += [name for name, value in (tags or {}).items() if value is True]
    return sorted(set(found))


def plain_rows(record: Record) -> list[Row]:
    """Return a battle of a JSON list: names and numbers as they are, lists and objects left out."""
    return [{name: value for name, value in record.items() if not isinstance(value, list | Mapping)}]


def arena_rows(record: Record) -> list[Row]:
    """Return a battle of LMArena or FastChat: one battle per record, style counts in `conv_metadata`."""
    row: Row = {name: record[name] for name in ("model_a", "model_b", "winner")}
    if record.get("language"):
        row["language"] = record["language"]
    session = record.get("evaluation_session_id") or record.get("judge")
    if isinstance(session, str):
        row["session"] = session
    if "category_tag" in record:
        row["tags"] = ";".join(_tags(record))
    style = record.get("conv_metadata") or {}
    for name, key in STYLE.items():
        for side in "ab":
            if style.get(key.format(side)) is not None:
                row[f"{name}_{side}"] = _total(style[key.format(side)])
    return [row]


def fastchat_rows(record: Record) -> list[Row]:
    """Return a battle of FastChat's cleaned logs; as there, only votes on models whose names were hidden count."""
    if not record["anony"]:
        raise Skip("the voter knew the models (anony is false), as FastChat leaves out")
    return arena_rows(record)


def arena_hard_rows(record: Record) -> list[Row]:
    """Return battles of arena-hard-auto: two games against the baseline, which is A in the first and B in the second.

    As there, a clear win (A>>B) weighs 3. Of records of version 2, which have a `uid`, both games must have a score;
    of older ones a game without a score is left out.

    >>> games = [{"score": "B>>A"}, {"score": "A>B"}]
    >>> rows = arena_hard_rows({"uid": 7, "model": "x", "baseline": "o", "games": games})
    >>> [(row["winner"], row["weight"]) for row in rows]
    [('model_b', 3.0), ('model_a', 1.0)]
    """
    model, baseline = record["model"], record.get("baseline") or "baseline"
    scores = [(game or {}).get("score") for game in record["games"]]
    if not any(scores) or ("uid" in record and not all(scores[:2])):
        raise Skip("the judge gave no score in a game")
    rows = []
    for score, pair in zip(scores, ((baseline, model), (model, baseline)), strict=False):
        if not score:
            continue
        if score not in SCORES:
            raise ValueError(f"a score is {score!r}; it is one of {', '.join(SCORES)}")
        winner = SCORES[score]
        row = {"model_a": pair[0], "model_b": pair[1], "winner": winner}
        row["weight"] = CLEAR_WIN if ">>" in score or "<<" in score else 1.0
        row["question"] = str(record.get("uid") or record.get("question_id"))
        rows.append(row | {name: record[name] for name in ("category", "judge") if record.get(name)})
    return rows


def alpaca_rows(record: Record) -> list[Row]:
    """Return a battle of AlpacaEval: a preference from 1 (the first output) to 2 (the second); 0 is an old tie."""
    preference = record["preference"]
    if preference is None or preference != preference:
        raise Skip("the annotator gave no preference")
    value = 1.5 if float(preference) == 0 else float(preference)
    if not 1.0 <= value <= 2.0:
        raise ValueError(f"a preference is {preference!r}; it runs from 1 to 2")
    row: Row = {"model_a": record["generator_1"], "model_b": record["generator_2"], "winner": 2.0 - value}
    if record["generator_1"] == record["generator_2"]:
        raise Skip("a model is compared with itself")
    names = {"dataset": "category", "annotator": "judge", "instruction": "question"}
    return [row | {new: str(record[old]) for old, new in names.items() if record.get(old) is not None}]


def mt_bench_rows(record: Record) -> list[Row]:
    """Return a battle of MT-Bench pair judgments: two games with sides swapped; if they disagree, it is a tie."""
    first, second = record["g1_winner"], record["g2_winner"]
    if "error" in (first, second):
        raise Skip("the judge gave no answer")
    words = {"model_1": "model_a", "model_2": "model_b", "tie": "tie"}
    row: Row = {"model_a": record["model_1"], "model_b": record["model_2"]}
    row["winner"] = words[first] if first == second else "tie"
    row["question"] = str(record["question_id"])
    judge = record.get("judge")
    if judge is not None:
        row["judge"] = str(judge[0] if isinstance(judge, list | tuple) else judge)
    return [row | ({"turn": str(record["turn"])} if record.get("turn") is not None else {})]


def inspect_rows(record: Record, scorer: str | None = None, dropped: dict[str, int] | None = None) -> list[Row]:
    """Return battles of an Inspect log, whose scores have model_a, model_b and winner as value or in the metadata.

    A score's own value counts before its metadata, and that before the sample's. Scorers whose value names no winner,
    such as one of accuracy, do not vote, unless `scorer` names one. Samples without such a score are counted in
    `dropped`.
    """
    rows: list[Row] = []
    unscored = 0
    for sample in record["samples"] or ():
        found = [
            row
            for name, score in (sample.get("scores") or {}).items()
            if scorer in (None, name) and (row := _inspect_row(sample, name, score, is_named=scorer is not None))
        ]
        unscored += not found
        rows += found
    if not rows:
        raise Skip("no sample has a score with model_a, model_b and winner")
    if unscored and dropped is not None:
        why = "a sample without a score that names a winner"
        dropped[why] = dropped.get(why, 0) + unscored
    return rows


def _inspect_row(sample: Record, name: str, score: Record, *, is_named: bool) -> Row | None:
    """Return the vote of a scorer on a sample; None where it has none."""
    value, own = (score or {}).get("value"), (score or {}).get("metadata") or {}
    known = {**(sample.get("metadata") or {}), **own, **(value if isinstance(value, Mapping) else {})}
    if not {"model_a", "model_b"} <= set(known):
        return None
    words = {*WINNER_WORDS, str(known["model_a"]).lower(), str(known["model_b"]).lower()}
    said = [value.get("winner") if isinstance(value, Mapping) else value, own.get("winner")]
    votes = [x for x in said if x is not None and (is_named or str(x).strip().lower() in words)]
    if not votes:
        return None
    row = {"model_a": known["model_a"], "model_b": known["model_b"], "winner": votes[0], "scorer": str(name)}
    row["question"] = str(sample.get("id"))
    return row | {key: str(known[key]) for key in ("category", "judge") if key in known}


def ranking_rows(record: Record) -> list[Row]:
    """Return a ranking of k answers as all pairs: names best first (a list inside is a tie), or answers with a rank.

    >>> [(row["model_a"], row["model_b"], row["winner"]) for row in ranking_rows({"ranking": ["x", ["y", "z"]]})]
    [('x', 'y', 1.0), ('x', 'z', 1.0), ('y', 'z', 0.5)]
    """
    if "ranking" in record:
        tiers = [tier if isinstance(tier, list) else [tier] for tier in record["ranking"]]
        placed = [(model, k) for k, tier in enumerate(tiers) for model in tier]
    else:
        placed = [(answer["model"], answer["rank"]) for answer in record["answers"]]
    if len(placed) < 2:
        raise Skip("fewer than two answers are ranked")
    names = ("category", "language", "judge")
    more = {name: str(record[name]) for name in names if record.get(name) is not None}
    question = record.get("question_id") or record.get("prompt") or record.get("id")
    question = json.dumps(placed) if question is None else str(question)
    return [
        {"model_a": a, "model_b": b, "winner": 0.5 if i == j else float(i < j), "question": question, **more}
        for (a, i), (b, j) in combinations(placed, 2)
    ]


@dataclass(frozen=True)
class Format:
    """What a tool writes: its name, the keys that identify it, and the rows of a record."""

    tool: str
    keys: frozenset[str]
    rows: Callable[[Record], list[Row]]
    cluster: tuple[str, ...] = ()
    weight_note: str = ""  # what is said where its weights differ


ARENA_KEYS: tuple[str, ...] = ("model_a", "model_b", "winner", "conv_metadata", "category_tag", "language", "is_code")
ARENA_KEYS += ("evaluation_session_id", "judge")
ALPACA_KEYS = ("generator_1", "generator_2", "preference")
MT_BENCH_KEYS = ("model_1", "model_2", "g1_winner", "g2_winner")
CLEAR_WIN = 3.0  # weight of A>>B in arena-hard-auto
SCORES = {"A>B": "model_a", "A>>B": "model_a", "B<A": "model_a", "B<<A": "model_a", "A=B": "tie", "B=A": "tie"}
SCORES |= {"B>A": "model_b", "B>>A": "model_b", "A<B": "model_b", "A<<B": "model_b"}
HEAVY = "clear wins (A>>B) weigh 3, as in arena-hard-auto"
INSPECT = Format("an Inspect log", frozenset(("eval", "samples")), inspect_rows, ("question",))
WINNER_WORDS = frozenset(("model_a", "model_b", "a", "b", "tie", "both_bad", "tie (bothbad)", "draw", "equal"))
KNOWN = (
    Format("LMArena battles", frozenset(ARENA_KEYS[:4]), arena_rows, ("session",)),
    Format("FastChat battles", frozenset((*ARENA_KEYS[:3], "anony")), fastchat_rows, ("session",)),
    Format("arena-hard-auto judgments", frozenset(("model", "games")), arena_hard_rows, ("question",), HEAVY),
    Format("AlpacaEval annotations", frozenset(ALPACA_KEYS), alpaca_rows, ("question",)),
    Format("MT-Bench pair judgments", frozenset(MT_BENCH_KEYS), mt_bench_rows, ("question",)),
    INSPECT,
    Format("rankings", frozenset(("ranking",)), ranking_rows, ("question",)),
    Format("rankings", frozenset(("answers", "prompt")), ranking_rows, ("question",)),
)
PLAIN = Format("a list of battles", frozenset(ARENA_KEYS[:3]), plain_rows)
