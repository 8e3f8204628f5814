"""Results per item as people have them: tables, and the sample logs of lm-evaluation-harness and Inspect.

A log becomes plain columns `model`, `benchmark`, `item` and `correct`, one row per answer. Of tables only the names of
the columns are found here.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lrbtl.data.columns import SIDES
from lrbtl.data.encode import as_table, column_names
from lrbtl.data.formats import INSPECT, Record, Skip, inspect_rows, open_records
from lrbtl.data.labels import is_missing, some_of
from lrbtl.data.logs import list_files, open_log
from lrbtl.data.state import is_state
from lrbtl.data.text import named_errors
from lrbtl.errors import EmptyDataError, FileReadError, MissingColumnError, check_type, spelled

ITEM_GUESSES = {
    "model": ["model", "model_name", "system"],
    "item": ["item", "item_id", "doc_id", "question_id", "problem_id", "example_id", "instance_id", "sample_id"],
    "correct": ["correct", "is_correct", "acc", "accuracy", "passed", "resolved", "exact_match", "score"],
    "contexts": ["benchmark", "dataset", "task", "task_name", "eval", "test", "category"],
    "samples": ["samples", "n_samples"],
}
INSPECT_FRAME = {"eval_id", "id", "epoch"}  # columns of Inspect's samples_df, whose sample_id is another in each run
SCORE = "score_"  # how its columns of scores begin
OF_INSPECT, OF_LM_EVAL = "Inspect logs", "lm-evaluation-harness samples"
Answer = tuple[str, str, str, float | None]  # model, benchmark, item, share of right answers
LM_EVAL_RESULTS = "results_"  # how files of means begin that it writes beside samples
LM_EVAL = frozenset(("doc_id", "doc", "target", "resps"))
LM_EVAL_FILE = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T[\d.:-]+")
METRICS = (
    "acc",
    "exact_match",
    "pass@1",
    "pass_at_1",
    "em",
    "mcq_accuracy",
)  # right or wrong, best first
RIGHT = {"c": 1.0, "correct": 1.0, "true": 1.0, "yes": 1.0, "pass": 1.0, "passed": 1.0}
WRONG = {"i": 0.0, "incorrect": 0.0, "false": 0.0, "no": 0.0, "n": 0.0, "fail": 0.0, "failed": 0.0}
WORDS = {**RIGHT, **WRONG, "p": 0.5, "partial": 0.5}


@dataclass(frozen=True)
class ItemColumns:
    """Which columns hold results per item; `contexts` may be empty."""

    model: str
    item: str
    correct: str
    contexts: tuple[str, ...]
    samples: str | None = None


PLAIN_COLUMNS = ItemColumns("model", "item", "correct", ("benchmark",))


@dataclass(frozen=True)
class ItemLog:
    """Results per item: something with columns, which of them hold what, and what was decided while reading."""

    tool: str
    frame: Any
    columns: ItemColumns
    notes: tuple[str, ...] = ()


def as_share(value: Any) -> Any:
    """Return the share of right answers that a word stands for; anything else as it is.

    >>> as_share("C"), as_share(False), as_share("0.5")
    (1.0, False, '0.5')
    """
    return WORDS.get(value.strip().lower(), value) if isinstance(value, str) else value


def find_item_columns(header: Sequence[str]) -> ItemColumns | None:
    """Return the columns of a table of results per item; None where it does not look like one.

    >>> find_item_columns(["model", "task", "doc_id", "acc"])
    ItemColumns(model='model', item='doc_id', correct='acc', contexts=('task',), samples=None)
    """
    lower = {str(name).strip().lower(): name for name in header}
    if any(first in lower and second in lower for first, second in SIDES) or "winner" in lower:
        return None
    found = {role: next((lower[name] for name in names if name in lower), None) for role, names in ITEM_GUESSES.items()}
    if set(lower) >= INSPECT_FRAME:
        scores = [name for plain, name in lower.items() if plain.startswith(SCORE)]
        found |= {"item": lower["id"], "correct": next(iter(scores), None), "samples": None}
        found["contexts"] = lower.get("task_name", found["contexts"])
        if scores and (found["model"] is None or found["contexts"] is None):
            raise MissingColumnError(
                "the samples of Inspect lack columns of models and tasks: make the frame with "
                "samples_df(logs, columns=EvalInfo + EvalModel + EvalTask + SampleSummary).",
                argument="column",
            )
    if found["model"] is None or found["item"] is None or found["correct"] is None:
        return None
    contexts = () if found["contexts"] is None else (str(found["contexts"]),)
    return ItemColumns(str(found["model"]), str(found["item"]), str(found["correct"]), contexts, found["samples"])


def find_item_log(source: Any) -> ItemLog | None:
    """Return the results per item of files, of a folder or of a frame; None where it holds none.

    >>> find_item_log({"model": ["x"], "item": [1], "correct": [1], "benchmark": ["law"]}).tool
    'a table'
    """
    if listed_paths(source):
        paths = source if isinstance(source, list | tuple) else [source]
        return _find_in_files([file for part in paths for file in list_files(part, tools=True)], source)
    if source is None or hasattr(source, "read") or hasattr(source, "read_next_batch"):
        return None  # streams can be read once
    table = as_table(source)
    return _table_log(table, column_names(table))


def open_items(source: Any, wanted: ItemColumns) -> ItemLog:
    """Return results per item of anything that holds them: columns as wanted, or guessed where such a name is usual.

    >>> frame = {"model": ["x", "y"], "task": ["law", "law"], "doc_id": [1, 1], "correct": [1, 0]}
    >>> open_items(frame, PLAIN_COLUMNS).columns.item
    'doc_id'
    """
    for role in ("model", "item", "correct"):
        check_type(getattr(wanted, role), str, role, "name a column")
    check_type(wanted.samples, (str, type(None)), "samples", "name a column, or leave it out")
    is_file = listed_paths(source)
    found = find_item_log(source) if is_file else None
    if is_file and found is None:
        raise MissingColumnError(
            f"{spelled(source)} holds no results per item: columns of model, item and correct are needed."
        )
    table = as_table(source) if found is None else found.frame
    header = column_names(table)
    asked = (wanted.model, wanted.item, wanted.correct, wanted.samples, *wanted.contexts)
    if {*asked} - {None} <= set(header):
        return ItemLog("a table", table, wanted) if found is None else replace(found, columns=wanted)
    guess = (_table_log(table, header) if found is None else found) or ItemLog("a table", table, wanted)

    def named(role: str) -> Any:
        """Return the column that is wanted, or the guess where that is a default which the table lacks."""
        name, usual = getattr(wanted, role), getattr(PLAIN_COLUMNS, role)
        parts = name if isinstance(name, tuple) else (name,)
        known = {None, *header}.issuperset(parts)
        return name if known or name != usual else getattr(guess.columns, role) or name

    return replace(guess, columns=ItemColumns(*map(named, ("model", "item", "correct", "contexts", "samples"))))


def listed_paths(source: Any) -> bool:
    """Return whether a source is a path, or a list of paths."""
    parts = source if isinstance(source, list | tuple) else [source]
    return bool(parts) and all(isinstance(part, str | os.PathLike) for part in parts)


def _table_log(table: Any, header: Sequence[str]) -> ItemLog | None:
    columns = find_item_columns(header)
    if columns is None:
        return None
    usual, other = PLAIN_COLUMNS, []
    for role in ("model", "item", "correct"):
        if getattr(columns, role) != getattr(usual, role):
            other.append(f"{role} from column {getattr(columns, role)}")
    if columns.contexts and columns.contexts != usual.contexts:
        other.append(f"contexts from column {columns.contexts[0]}")
    notes = (f"guessed {', '.join(other)} (from_items names others)",) if other else ()
    return ItemLog("a table", table, columns, notes)


def _find_in_files(files: Sequence[Path], source: Any) -> ItemLog | None:
    kinds = [_kind(file) for file in files]
    tool = next((kind for kind in kinds if kind is not None), None)
    if tool is not None:
        log = _collect(tool, [file for file, kind in zip(files, kinds, strict=True) if kind == tool])
        other = [file.name for file, kind in zip(files, kinds, strict=True) if kind != tool]
        other = [name for name in other if not name.startswith(LM_EVAL_RESULTS)]
        more = (f"left out {len(other)} files that are not {tool}: {some_of(other, 3)}",) if other else ()
        return replace(log, notes=(*log.notes, *more))
    if not all(file.is_file() and not is_state(file) for file in files):
        return None
    try:
        log_of_rows = open_log(source)
        header = log_of_rows.names
    except (FileReadError, EmptyDataError):  # of another kind: its own reader says what is wrong
        return None
    return _table_log(log_of_rows, header)


def _kind(file: Path) -> str | None:
    """Return which tool wrote a file of results per item; None where it is another file."""
    try:
        known, records = open_records(file, only_tools=True)
        first = next(records, {})
    except (FileReadError, EmptyDataError):
        return None
    if known is INSPECT:
        return None if _votes(first) else OF_INSPECT
    return OF_LM_EVAL if known is None and set(first) >= LM_EVAL else None


def _votes(record: Record) -> bool:
    """Return whether an Inspect log holds votes between two models, or no results at all."""
    try:
        return bool(inspect_rows(record))
    except Skip:
        return not any(sample.get("scores") for sample in record["samples"] or ())
    except (KeyError, TypeError, ValueError, AttributeError):
        return True  # its own reader says what is wrong


@dataclass
class Decisions:
    """What was decided while reading: choices in words, and numbers of what was left out."""

    choices: dict[str, None] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    def said(self) -> tuple[str, ...]:
        """Return all of it, a sentence each."""
        return (*self.choices, *(f"{count:,} {what} left out" for what, count in self.left_out.items()))


def _collect(tool: str, files: Sequence[Path]) -> ItemLog:
    """Return the answers of all files that a tool wrote."""
    rows: list[Answer] = []
    made = Decisions()
    for file in files:
        with named_errors(file):
            try:
                records = open_records(file, only_tools=True)[1]
                rows += _inspect_answers(records, made) if tool == OF_INSPECT else _lm_eval_answers(file, records, made)
            except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
                raise FileReadError(
                    f"it is not as {tool} are: {type(error).__name__} {error}; leave it out, or write model, "
                    "benchmark, item and correct into a table."
                ) from error
    if not rows:
        raise EmptyDataError(f"there are no scored answers in these {tool}.")
    names = ("model", "benchmark", "item", "correct")
    frame = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return ItemLog(tool, frame, PLAIN_COLUMNS, made.said())


def _lm_eval_answers(file: Path, records: Iterable[Record], made: Decisions) -> Iterator[Answer]:
    """Yield the answers in a file of samples of lm-evaluation-harness.

    The model is in the results beside it, else the name of its folder. Of several filters the first one counts, of
    several metrics the first of `METRICS`.
    """
    model, named = _lm_eval_model(file), LM_EVAL_FILE.match(file.name)
    task = named["task"] if named else file.name.split(".")[0]
    metric: str | None = None
    kept = None
    for record in records:
        if metric is None:
            given = record.get("metrics") or [name for name in METRICS if name in record]
            metric, kept = str(next((name for name in METRICS if name in given), given[0])), record.get("filter")
            after = "" if kept in (None, "none") else f" after filter {kept}"
            made.choices.setdefault(f"{task}: {metric} is what counts as correct{after}")
        if record.get("filter") == kept:
            yield model, task, str(record["doc_id"]), float(record[metric])
        else:
            made.left_out["answers after other filters"] += 1


def _lm_eval_model(file: Path) -> str:
    """Return the model of a file of samples: that of the results of the same run, else the name of the folder."""
    stamp = LM_EVAL_FILE.match(file.name)
    date = file.name[stamp.start() :].removeprefix(f"samples_{stamp['task']}_").split(".jsonl")[0] if stamp else ""
    beside = file.with_name(f"{LM_EVAL_RESULTS}{date}.json")
    try:
        name = json.loads(beside.read_bytes()).get("model_name")
    except (OSError, ValueError, RecursionError, AttributeError):
        name = None
    return str(name or file.parent.name)


def _inspect_answers(records: Iterable[Record], made: Decisions) -> Iterator[Answer]:
    """Yield the answers in Inspect logs: of several scorers the first that says right or wrong."""
    for record in records:
        model, task = str(record["eval"]["model"]), str(record["eval"]["task"])
        for sample in record["samples"] or ():
            scores = sample.get("scores") or {}
            shares = {name: _inspect_share((score or {}).get("value")) for name, score in scores.items()}
            name = next((name for name, share in shares.items() if share is not None), None)
            if name is None:
                made.left_out["samples without a score from 0 to 1"] += 1
                continue
            if len(shares) > 1:
                made.choices.setdefault(f"{task}: scorer {name} is what counts as correct")
            yield model, task, str(sample["id"]), shares[name]


def _inspect_share(value: Any) -> float | None:
    if isinstance(value, Mapping | list) or is_missing(value):
        return None
    share = as_share(value)
    try:
        found = float(share)
    except (TypeError, ValueError):
        return None
    return found if 0.0 <= found <= 1.0 else None
