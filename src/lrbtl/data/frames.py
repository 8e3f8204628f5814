"""Frames and files in the place of battles: which columns hold what is guessed from common names, and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lrbtl.data.battles import Battles
from lrbtl.data.columns import GUESSES, SIDES, Columns
from lrbtl.data.encode import as_table, column_names
from lrbtl.data.formats import read_tool_log
from lrbtl.data.item_logs import ItemLog, find_item_log
from lrbtl.data.labels import some_of
from lrbtl.data.logs import open_log
from lrbtl.data.observations import Data, Results
from lrbtl.data.read import FileBattles, listed_files, read_votes
from lrbtl.data.state import is_state
from lrbtl.errors import InputTypeError, MissingColumnError
from lrbtl.typing import Progress

if TYPE_CHECKING:
    from narwhals.typing import IntoFrame

    Frame = IntoFrame | Mapping[str, Any]
else:
    Frame = Any  # narwhals is imported where there are frames

RESULT_GUESSES = {
    "model": ["model", "model_name", "system"],
    "contexts": ["benchmark", "dataset", "task", "eval", "test", "category"],
    "score": ["score", "accuracy", "value", "result"],
}


def as_data(given: Data | Frame) -> Data:
    """Return battles or observed entries as they are, and the battles of a frame, with a note on what was guessed.

    >>> log = {"model_a": ["x", "y"], "model_b": ["y", "x"], "winner": ["x", "tie"], "task": ["code", "math"]}
    >>> as_data(log).shape, as_data(log).notes
    ((2, 2), ('guessed contexts from column task (Battles.read names others)',))
    """
    if isinstance(given, Results):
        return given
    if isinstance(given, Battles):
        return given
    table = as_table(given)
    return as_results(table) if _holds_results(table) else as_battles(table)


def _holds_results(given: Any) -> bool:
    """Return whether a file or a frame looks like scores of models; streams can be read once, and are votes."""
    if listed_files(given):
        return looks_like_results(given)
    if given is None or isinstance(given, str) or hasattr(given, "read") or hasattr(given, "read_next_batch"):
        return False
    return find_item_log(given) is not None or _result_columns(column_names(given)) is not None


def as_results(given: Results | Frame) -> Results:
    """Return results as they are, and those of a frame with one row per score, with a note on what was guessed.

    >>> as_results({"model": ["x", "y"], "task": ["code", "code"], "score": [30, 50]}).notes[-1]
    'guessed contexts from column task (Results.from_frame names others)'
    """
    if isinstance(given, Results):
        return given
    if isinstance(given, Battles):
        raise InputTypeError("battles are votes, where scores of models are needed: give Results.")
    if listed_files(given):
        return read_results(given)
    given = as_table(given)
    if (items := find_item_log(given)) is not None:
        return item_results(items)
    header = column_names(given)
    found = _result_columns(header)
    if found is None:
        raise MissingColumnError(
            f"no columns look like model, benchmark and score (columns: {some_of([*map(repr, header)], 8)}); name "
            "them: Results.from_frame(frame, model=..., contexts=..., score=...), or use Results.from_wide."
        )
    usual = {"model": "model", "contexts": "benchmark", "score": "score"}
    said = [f"{role} from column {name}" for role, name in found.items() if name != usual[role]]
    results = Results.from_frame(given, **found)
    notes = [f"guessed {', '.join(said)} (Results.from_frame names others)"] if said else []
    return replace(results, notes=(*results.notes, *notes))


def item_results(log: ItemLog) -> Results:
    """Return accuracies of results per item, with a note."""
    columns = log.columns
    if not columns.contexts:
        raise MissingColumnError(
            "results per item need a column of benchmarks to become accuracies: name it with Results.from_items(frame, "
            "contexts=...). Battles.from_items(frame, contexts=()) compares models without one."
        )
    results = Results.from_items(
        log.frame,
        model=columns.model,
        item=columns.item,
        correct=columns.correct,
        contexts=columns.contexts,
        samples=columns.samples,
    )
    note = "results per item, read as accuracies (Battles.from_items compares models on the same items)"
    return replace(results, notes=(*results.notes, *log.notes, note))


def read_results(source: Any) -> Results:
    """Return the results of a file: one row per item or per score, columns guessed, or one row per model."""
    if (items := find_item_log(source)) is not None:
        return item_results(items)
    log = open_log(source)
    return as_results(log) if _result_columns(log.names) is not None else Results.from_wide(log)


def looks_like_results(path: Any) -> bool:
    """Return whether a file holds scores: its columns are model, benchmark and score, or numbers beside a model.

    Results per item are scores too, also in the files of a folder.
    """
    files = listed_files(path)
    if len(files) == 1 and files[0].is_file() and is_state(files[0]):
        return False
    if find_item_log(path) is not None:
        return True
    if len(files) != 1 or not files[0].is_file() or read_tool_log(files[0]) is not None:
        return False
    names = open_log(path).names
    if _result_columns(names) is not None:
        return True
    lower = {str(name).strip().lower() for name in names}
    votes = any(first in lower or second in lower for first, second in SIDES) or lower & set(GUESSES["winner"])
    return bool(lower & set(RESULT_GUESSES["model"])) and not votes and len(names) > 1


def _result_columns(header: Sequence[str]) -> dict[str, str] | None:
    """Return the columns of a frame of scores, None where it does not look like one."""
    lower = {str(name).strip().lower(): name for name in header}
    found = {
        role: next((lower[name] for name in names if name in lower), None) for role, names in RESULT_GUESSES.items()
    }
    votes = any(first in lower and second in lower for first, second in SIDES)
    return None if votes or None in found.values() else {role: str(name) for role, name in found.items()}


def as_battles(given: Battles | Frame) -> Battles:
    """Return battles as they are, and those of a frame or file, with a note on what was guessed."""
    if isinstance(given, Battles):
        return given
    return read_battles(given).battles


def read_battles(
    source: Any,
    columns: Columns | None = None,
    *,
    scorer: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> FileBattles:
    r"""Return the battles of anything that holds votes, with the columns that were guessed; see `Battles.read`.

    >>> import tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp(), "log.csv")
    >>> _ = path.write_text("model_a,model_b,winner,category\nx,y,model_a,code\ny,x,tie,math\n")
    >>> found = read_battles(path)
    >>> found.battles.shape, found.said
    ((2, 2), ['guessed contexts from column category (Battles.read names others)'])
    """
    return read_votes(Battles, source, columns, scorer=scorer, progress=progress, **options)
