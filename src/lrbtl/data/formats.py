"""Files that evaluation tools write, as plain columns of battles: recognised by their keys.

A format turns one record into rows with `model_a`, `model_b` and `winner` (a word, or a number for `model_a`), and
whatever else it knows: `category`, `judge`, `question` (votes on one question are not independent), counts of style.
Every command then reads them like any other table.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from lrbtl.data.text import named_errors
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
    """

    tool: str
    columns: dict[str, list[Any]]
    cluster: tuple[str, ...] = ()
    covariates: dict[str, tuple[str, str]] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.columns["winner"])

    def said(self) -> list[str]:
        """Return what was read, one sentence each."""
        lines = [f"read {self.n_rows:,} battles from {self.tool}"]
        return [*lines, *(f"{count:,} records left out: {why}" for why, count in self.dropped.items())]


class Skip(Exception):
    """A record that holds no vote, and why."""


def read_tool_log(path: str | Path) -> ToolLog | None:
    r"""Return the battles of a file that an evaluation tool wrote; None where it is a plain table, or none at all.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp(), "annotations.json")
    >>> _ = path.write_text('[{"generator_1": "x", "generator_2": "y", "preference": 2.0, "instruction": "Hello"}]')
    >>> log = read_tool_log(path)
    >>> log.tool, log.columns["winner"]
    ('AlpacaEval annotations', [0.0])
    """
    path = Path(path)
    kind = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"][-1:]
    if not path.is_file() or kind[:1] not in [[suffix] for suffix in (".json", ".parquet", ".pq", *LINES)]:
        return None
    with named_errors(path):
        if kind == [".json"]:
            records = _whole_records(path)
            first = next(records, {})
            found = find_format(first) or (PLAIN if set(first) >= PLAIN.keys else None)
            if found is None:
                tools = ", ".join(dict.fromkeys(known.tool for known in KNOWN))
                raise FileReadError(
                    f"it is neither a list of battles with model_a, model_b and winner nor of a known kind: {tools}."
                )
        else:
            try:
                records = _line_records(path) if kind[0] in LINES else _parquet_records(path)
                first = next(records, {})
            except (FileReadError, OSError, EOFError):
                return None
            found = find_format(first)
            if found is None:
                return None
        return collect(found, chain([first], records))


def find_format(record: Record) -> Format | None:
    """Return the format that a record is of, by its keys.

    >>> find_format({"model": "x", "games": [], "judge": "z"}).tool
    'arena-hard-auto judgments'
    """
    return next((known for known in KNOWN if known.keys <= set(record)), None)


def _whole_records(path: Path) -> Iterator[Record]:
    text = gzip.decompress(path.read_bytes()) if path.suffix.lower() == ".gz" else path.read_bytes()
    if not text.strip():
        raise EmptyDataError(f"{path}: the file is empty.")
    try:
        value = json.loads(text)
    except UnicodeDecodeError:
        raise
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and depths of thousands
        raise FileReadError(f"it is not JSON ({error}); write it again.") from error
    yield from (record for record in (value if isinstance(value, list) else [value]) if isinstance(record, dict))


def _line_records(path: Path) -> Iterator[Record]:
    """Yield the objects of a file line by line; what is wrong with a plain table its own reader will say."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    with opened(path, "rb") as stream:
        for k, line in enumerate(stream, 1):
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


def collect(known: Format, records: Iterable[Record]) -> ToolLog:
    """Return the rows of all records as columns; those that some rows lack are left out, but not models and winner."""
    rows: list[Row] = []
    dropped: dict[str, int] = {}
    for k, record in enumerate(records, 1):
        try:
            rows += known.rows(record)
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


def arena_hard_rows(record: Record) -> list[Row]:
    """Return battles of arena-hard-auto: two games against the baseline, which is A in the first and B in the second.

    >>> games = [{"score": "B>>A"}, {"score": "A>B"}]
    >>> [row["winner"] for row in arena_hard_rows({"uid": 7, "model": "x", "baseline": "o", "games": games})]
    ['model_b', 'model_a']
    """
    model, baseline = record["model"], record.get("baseline") or "baseline"
    words = {"A": "model_a", "B": "model_b", "=": "tie"}
    rows = []
    for game, pair in zip(record["games"], ((baseline, model), (model, baseline)), strict=False):
        score = (game or {}).get("score")
        if not score:
            continue
        sign = "=" if "=" in score else score[0] if ">" in score else score[-1]
        row = {"model_a": pair[0], "model_b": pair[1], "winner": words[sign]}
        row["question"] = str(record.get("uid") or record.get("question_id"))
        rows.append(row | {name: record[name] for name in ("category", "judge") if record.get(name)})
    if not rows:
        raise Skip("the judge gave no score")
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


def inspect_rows(record: Record) -> list[Row]:
    """Return battles of an Inspect log, whose scores have model_a, model_b and winner as value or in the metadata."""
    rows = []
    for sample in record["samples"] or ():
        for score in (sample.get("scores") or {}).values():
            known = {**(sample.get("metadata") or {}), **(score.get("metadata") or {})}
            value = score.get("value")
            known |= value if isinstance(value, Mapping) else {"winner": known.get("winner", value)}
            if {"model_a", "model_b", "winner"} <= set(known) and known["winner"] is not None:
                row = {name: known[name] for name in ("model_a", "model_b", "winner")}
                row["question"] = str(sample.get("id"))
                rows.append(row | {name: str(known[name]) for name in ("category", "judge") if name in known})
    if not rows:
        raise Skip("no sample has a score with model_a, model_b and winner")
    return rows


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
    """What a tool writes: its name, the keys that tell it, and the rows of a record."""

    tool: str
    keys: frozenset[str]
    rows: Callable[[Record], list[Row]]
    cluster: tuple[str, ...] = ()


ARENA_KEYS: tuple[str, ...] = ("model_a", "model_b", "winner", "conv_metadata", "category_tag", "language", "is_code")
ARENA_KEYS += ("evaluation_session_id", "judge")
ALPACA_KEYS = ("generator_1", "generator_2", "preference")
MT_BENCH_KEYS = ("model_1", "model_2", "g1_winner", "g2_winner")
KNOWN = (
    Format("LMArena battles", frozenset(ARENA_KEYS[:4]), arena_rows, ("session",)),
    Format("arena-hard-auto judgments", frozenset(("model", "games")), arena_hard_rows, ("question",)),
    Format("AlpacaEval annotations", frozenset(ALPACA_KEYS), alpaca_rows, ("question",)),
    Format("MT-Bench pair judgments", frozenset(MT_BENCH_KEYS), mt_bench_rows, ("question",)),
    Format("an Inspect log", frozenset(("eval", "samples")), inspect_rows, ("question",)),
    Format("rankings", frozenset(("ranking",)), ranking_rows, ("question",)),
    Format("rankings", frozenset(("answers", "prompt")), ranking_rows, ("question",)),
)
PLAIN = Format("a list of battles", frozenset(ARENA_KEYS[:3]), plain_rows)
