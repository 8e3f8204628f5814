"""What the commands do with files of results: forecasts, plans, boards, and their check by `doctor`."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from typing import Any

import numpy as np

from lrbtl.boards.forecast import forecast
from lrbtl.cli.options import file_title, say, show
from lrbtl.data.frames import looks_like_results, read_results
from lrbtl.data.item_logs import ItemLog
from lrbtl.data.items import read_items
from lrbtl.data.observations import Results
from lrbtl.data.read import STANDARD_INPUT
from lrbtl.errors import UsageError
from lrbtl.tables import TABLES, check_target, write_result


def run_forecast(options: Namespace) -> None:
    """Print and write forecasts of scores that were not measured."""
    targets = [check_target(path, TABLES) for path in options.out]
    if not 0.0 < options.level < 1.0:
        raise UsageError(f"--level {options.level:g}: a confidence level lies between 0 and 1, for example 0.95.")
    results = read_results(options.file)
    wanted: dict[str, Any] = {"model": options.model or None, "context": options.benchmark or None}
    found = forecast(results, level=options.level, rng=options.seed, **wanted)
    for path in targets:
        write_result(path, found, f"Forecasts of {file_title(options.file)}")
    if not options.quiet:
        show(found)
    for path in targets:
        say(f"wrote {path}")


def results_of(file: str) -> Results | None:
    """Return the results of a file that looks like a table of scores, else None; say what was guessed."""
    if file == STANDARD_INPUT or not os.path.exists(file) or not looks_like_results(file):
        return None
    found = read_results(file)
    for note in found.notes:
        say(note)
    return found


def describe_items(file: str, log: ItemLog) -> list[str]:
    """Return what a file of results per item is, and the commands to run."""
    table, quoted = read_items(log), shlex.quote(file)
    answers, benchmarks = int(table.samples.sum()), len(set(zip(*table.contexts, strict=True)))
    on = f" of {benchmarks:,} benchmark{'s' * (benchmarks > 1)}" if table.contexts else ""
    right = np.bincount(table.model, table.samples * table.share) / np.bincount(table.model, table.samples)
    best = np.argsort(-right, kind="stable")[:2]
    first, second = (shlex.quote(str(table.models[k])) for k in best)
    return [
        f"{file}: results per item ({log.tool}), {answers:,} answers of {len(table.models):,} models on "
        f"{table.n_items:,} items{on}",
        *(f"  {note}" for note in log.notes),
        f"  right       {', '.join(f'{table.models[k]} {right[k]:.1%}' for k in best)}"
        + (", ..." if len(table.models) > len(best) else ""),
        "",
        "Commands to run",
        *([f"  lrbtl leaderboard {quoted}\n      accuracies, with the noise of samples and of items"] if on else []),
        f"  lrbtl compare {quoted} {first} {second}\n      which is better on the same items, in every benchmark",
        f"  lrbtl gate {quoted} --candidate {first} --baseline {second}\n      may one replace the other?",
        *([f"  lrbtl report {quoted} -o report.html\n      everything on one page"] if on else []),
        f"  lrbtl.leaderboard(lrbtl.Battles.from_items({file!r}))\n      in Python: a board of who beats whom",
    ]


def describe_results(file: str, results: Results) -> list[str]:
    """Return what a file of results is, and the commands to run."""
    d1, D = results.shape[0], results.n_contexts
    filled = float(results.measured.mean())
    quoted = shlex.quote(file)
    return [
        f"{file}: results, {results.n_observations:,} scores of {d1:,} models on {D:,} benchmarks, {filled:.0%} of the "
        "table",
        *(f"  {note}" for note in results.notes),
        "",
        "Commands to run",
        f"  lrbtl leaderboard {quoted}\n      an index over all benchmarks",
        f"  lrbtl forecast {quoted} --model {shlex.quote(str(results.models[0]))}\n      what was not measured",
        f"  lrbtl plan {quoted} 10\n      which benchmarks to run next",
        f"  lrbtl report {quoted} -o report.html\n      everything on one page",
    ]
