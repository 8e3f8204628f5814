"""What the commands of `lrbtl` do."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from lrbtl.boards.board import Leaderboard, Leaderboards, count_of
from lrbtl.boards.comparison import compare
from lrbtl.boards.gate import gate
from lrbtl.boards.leaderboard import leaderboard
from lrbtl.boards.stability import stability
from lrbtl.cli.choices import choice_of
from lrbtl.cli.options import (
    analysis_options,
    board_options,
    columns_of,
    command_words,
    file_title,
    load,
    progress_of,
    read,
    read_board,
    say,
    show,
)
from lrbtl.cli.results import results_of
from lrbtl.data.battles import Battles
from lrbtl.data.columns import Columns
from lrbtl.data.labels import shown_context
from lrbtl.data.logs import list_files
from lrbtl.data.meta import read_meta
from lrbtl.data.observations import Results
from lrbtl.data.read import STANDARD_INPUT
from lrbtl.data.state import Source, read_state, read_watches, write_state
from lrbtl.data.text import named_errors
from lrbtl.errors import LrbtlError, OutputPathError, RepeatedFileError, UsageError, make_rng
from lrbtl.files import locked
from lrbtl.inference.diagnose import diagnose
from lrbtl.model.simulate import NEWCOMER, demo_battles, simulate_battles, simulate_scores
from lrbtl.show.completion import results_html
from lrbtl.show.report import write_report
from lrbtl.tables import PICTURES, TABLES, check_target, csv_text, write_bytes, write_result

CSV_ENDINGS = (".csv", ".gz")


def run_leaderboard(options: Namespace) -> None:
    """Print and write the leaderboard of a file."""
    targets = [check_target(path, (*TABLES, *PICTURES)) for path in options.out]
    if options.top is not None and options.top < 1:
        raise UsageError(f"--top {options.top}: give at least 1.")
    analysis = analysis_options(options)
    board = board_options(options)
    battles = results_of(options.file) or load(options)
    context = read_board(options.board, battles)
    boards = leaderboard(battles, context=context, compat=options.compat, **board, **analysis)
    for path in targets:  # before anything is printed: whoever reads may stop
        if path.suffix.lower() in PICTURES:
            write_picture(path, boards, options.top)
        else:
            write_result(path, BoardFile(boards, options.top), board_title(boards, options.file))
    if not options.quiet:
        show(boards.summary(options.top))
    for path in targets:
        say(f"wrote {path}")


def board_title(boards: Leaderboard | Leaderboards, file: str) -> str:
    """Return the title of a file of boards, which names the category of one."""
    title = f"Leaderboard of {file_title(file)}"
    if isinstance(boards, Leaderboard) and boards.context is not None:
        return f"{title}: {shown_context(boards.context)}"
    return title


@dataclass(frozen=True)
class BoardFile:
    """Boards as files hold them: the category of every row, and the best of each board where so many are asked for."""

    boards: Leaderboard | Leaderboards
    top: int | None = None

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the columns, the category first."""
        columns = self.boards.to_dict()
        if isinstance(self.boards, Leaderboard) and self.boards.context is not None:
            columns = {"context": [shown_context(self.boards.context)] * len(columns["model"]), **columns}
        if self.top is None:
            return columns
        seen: Counter[Any] = Counter()
        kept = []
        nothing = [None] * len(columns["model"])
        parts = zip(columns.get("context", nothing), columns.get("island", nothing), strict=True)
        for k, key in enumerate(parts):
            seen[key] += 1
            if seen[key] <= self.top:
                kept.append(k)
        return {name: [values[k] for k in kept] for name, values in columns.items()}

    def to_json(self, title: str) -> str:
        """Return the whole document."""
        return self.boards.to_json(title)

    def heading(self) -> list[str]:
        """Return what to know of the boards."""
        return self.boards.heading()

    def _repr_html_(self) -> str:
        return self.boards._repr_html_()

    def __str__(self) -> str:
        return self.boards.summary(self.top)


def run_compare(options: Namespace) -> None:
    """Print and write the comparison of two models."""
    targets = [check_target(path, TABLES) for path in options.out]
    analysis = analysis_options(options)
    result = compare(load(options), options.a, options.b, margin=options.margin, **analysis)
    for path in targets:
        write_result(path, result, f"{result.a} against {result.b}")
    if not options.quiet:
        show(result)
    for path in targets:
        say(f"wrote {path}")


def run_gate(options: Namespace) -> int:
    """Print whether a candidate may replace a baseline, and return the exit code that says so."""
    analysis = analysis_options(options)
    battles = load(options)
    context = read_board(options.category, battles)
    result = gate(battles, options.candidate, options.baseline, margin=options.margin, context=context, **analysis)
    show(json.dumps(result.to_dict(), allow_nan=False, ensure_ascii=False) if options.json else result)
    return result.exit_code


def run_diagnose(options: Namespace) -> None:
    """Print what the battles of a file can and cannot show."""
    analysis = analysis_options(options)
    battles = load(options)
    show(battles.summary(), "\n")
    run = {name: analysis[name] for name in ("method", "rank", "link", "n_threads", "rng")}
    show(command_words(str(diagnose(battles, **run))))


def run_report(options: Namespace) -> None:
    """Write the report of a file."""
    path = check_target(options.out, (".html",))
    analysis = analysis_options(options)
    board = board_options(options)
    battles = results_of(options.file) or load(options)
    boards = leaderboard(battles, context="all", **board, **analysis)
    choice = choice_of(options, boards, analysis) if options.cost else None
    if isinstance(battles, Results):
        page = results_html(boards, title=options.title, choice=choice)
        write_bytes(path, page.encode("utf-8", "backslashreplace"))
        say(f"wrote {path}")
        return
    tables = [] if choice is None else choice.tables()
    if options.stability:
        known = read_meta(options.meta, boards.models)
        makers = next((known[name] for name in known if name.strip().lower().startswith("organi")), None)
        named = None if makers is None else dict(zip(boards.models, makers, strict=True))
        tables.append(("Stability", stability(boards, organisations=named)))
    if options.rank_sets is not None:
        sets = boards.rank_sets()
        tables += [("Rank sets", sets), (f"Top {options.rank_sets}", sets.top(options.rank_sets))]
    write_report(path, boards, title=options.title, meta=options.meta, battles=battles, tables=tables)
    say(f"wrote {path}")


def run_demo(options: Namespace) -> None:
    """Show the features on the embedded arena."""
    folder = options.out
    if folder is not None:
        make_folder(folder)
    battles = demo_battles()
    boards = leaderboard(battles, context="all", progress=progress_of(options))
    if folder is not None:
        write_result(folder / "board.csv", boards, "Demo")
        write_picture(folder / "board.png", boards)
        write_report(folder / "report.html", boards, title="Demo: a simulated arena", battles=battles)
    show("A simulated arena: models, votes and results are made up.\n")
    show(battles.summary(), "\n")
    show(boards.overall, "\n")
    show(boards["maths"].summary(10), "\n")
    show(compare(battles, boards.models[0], NEWCOMER))
    if folder is not None:
        say(f"wrote board.csv, board.png and report.html into {folder}")


def write_picture(path: Path, board: Leaderboard | Leaderboards, top: int | None = None) -> None:
    """Draw a board, of several the overall one, into a PNG or SVG file."""
    from lrbtl.show.plots import plot_leaderboard, save_picture

    save_picture(plot_leaderboard(board, top=top), path)


def make_folder(folder: Path) -> None:
    """Create a folder unless it is there."""
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputPathError(f"cannot write into {folder}: {error.strerror or error}.") from error


def run_simulate(options: Namespace) -> None:
    """Write simulated battles, one row each."""
    path = check_target(options.out, CSV_ENDINGS)
    if path.suffix.lower() == ".gz" and path.suffixes[-2:-1] != [".csv"]:
        raise OutputPathError(f"cannot write {path}: its ending must be .csv or .csv.gz.")
    if options.demo:
        battles = demo_battles()
    else:
        shape = (options.models, options.contexts) if options.contexts > 0 else (options.models,)
        rank = options.rank if options.contexts > 0 else 1
        truth = simulate_scores(shape, rank, scale=options.scale, rng=options.seed)
        battles = simulate_battles(truth, options.battles, rng=options.seed + 1)
    data = csv_text(battle_rows(battles, options.seed)).encode()
    write_bytes(path, _gzipped(data) if path.suffix.lower() == ".gz" else data)
    say(f"wrote {battles.n_battles:,} simulated battles to {path}")


def _gzipped(data: bytes) -> bytes:
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as file:
        file.write(data)
    return stream.getvalue()


def battle_rows(battles: Battles, seed: int) -> dict[str, list[Any]]:
    """Return one row per battle, sides and order at random."""
    cells = battles.cells
    rng = make_rng(seed)
    cell = rng.permutation(np.repeat(np.arange(cells.n_cells), cells.count))
    swapped = rng.random(cell.size) < 0.5
    names = np.array([str(model) for model in battles.models], dtype=object)
    first, second = np.where(swapped, cells.b[cell], cells.a[cell]), np.where(swapped, cells.a[cell], cells.b[cell])
    y = np.where(swapped, 1.0 - cells.y[cell], cells.y[cell])
    winner = np.array(["model_b", "tie", "model_a"], dtype=object)[np.round(2 * y).astype(int)]
    rows = {"model_a": names[first].tolist(), "model_b": names[second].tolist(), "winner": winner.tolist()}
    modes = np.unravel_index(cells.context[cell], battles.shape[1:]) if battles.levels else ()
    for name, levels, codes in zip(battles.mode_names, battles.levels, modes, strict=True):
        column = "category" if len(battles.levels) == 1 else name
        rows[column] = [str(levels[k]) for k in codes]
    return rows


# ------------------------------------------------------------------------------
# `lrbtl add`: battles of new files go into a state, those of files that went in before do not.
# ------------------------------------------------------------------------------


class HashedStream(io.RawIOBase):
    """A stream that knows the digest of the bytes that were read from it."""

    stream: IO[bytes]
    hash: hashlib._Hash

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.hash = stream, hashlib.sha256()

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.hash.update(data)
        return len(data)


def run_add(options: Namespace) -> None:
    """Add the battles of files to a state, which is made where there is none; all of them or none."""
    state = check_target(options.state, (".lrbtl",))
    columns = columns_of(options)
    with locked(state, options.wait, lambda: say(f"waiting for another process that changes {state}")):
        battles, sources = read_state(state, Battles) if state.exists() else (None, [])
        if battles is not None and columns.contexts is None:
            columns = replace(columns, contexts=battles.mode_names)
        watches = read_watches(state) if battles is not None else []
        n_before = len(sources)
        known = {source.digest: source.name for source in sources}
        for given, file in files_of(options.files):
            try:
                found = new_file(options, columns, known, given, file, battles)
            except LrbtlError as error:
                error.add_note(f"stopped at {file}: nothing was added to {state}.")
                raise
            if found is not None:
                source, battles = found
                sources.append(source)
                say(f"{source.name}: {source.n_battles:,} battles")
        if battles is not None and len(sources) > n_before:
            write_state(state, battles, sources, watches)
            say(f"{state} holds {battles.n_battles:,} battles of {count_of(len(sources), 'file')}")


def files_of(given: Sequence[str]) -> Iterator[tuple[str, str | Path]]:
    """Yield what was given, and each file that it stands for."""
    for part in given:
        for file in [part] if part == STANDARD_INPUT else list_files(part, tools=True):
            yield part, file


def new_file(
    options: Namespace, columns: Columns, known: dict[str, str], given: str, file: str | Path, battles: Battles | None
) -> tuple[Source, Battles] | None:
    """Return a file and the battles with those of it; None where it went in before and was not named by itself."""
    digest, more = read_standard_input(options, columns) if file == STANDARD_INPUT else (file_digest(Path(file)), None)
    if digest not in known or options.again:
        more = read(options, file, columns) if more is None else more
        joined = more if battles is None else battles + more
        known[digest] = str(file)
        return Source(str(file), digest, more.n_battles), joined
    if given == STANDARD_INPUT or Path(given).is_file():
        raise RepeatedFileError(
            f"{file} went into {options.state} before, as {known[digest]}. Give --again to count it once more.",
            file=str(file),
            known=known[digest],
        )
    say(f"{file}: went in before, left out")
    return None


def read_standard_input(options: Namespace, columns: Columns) -> tuple[str, Battles]:
    """Return the digest of standard input and its battles."""
    stream = HashedStream(sys.stdin.buffer)
    battles = read(options, stream, columns)
    return stream.hash.hexdigest(), battles


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file."""
    with named_errors(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
