"""What `lrbtl choose` does, and how costs are given on the command line."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lrbtl.boards.choose import Choice, choose
from lrbtl.cli.options import analysis_options, file_title, load, read_board, say, show
from lrbtl.cli.results import results_of
from lrbtl.errors import UsageError
from lrbtl.tables import PICTURES, TABLES, check_target, write_result


def read_costs(options: Namespace) -> Any:
    """Return what models cost: a mapping, or the path of a table.

    >>> read_costs(Namespace(cost=["small=0.5", "large=10"], cost_column=None))
    {'small': 0.5, 'large': 10.0}
    """
    pairs: dict[str, float] = {}
    for text in options.cost:
        label, equals, number = text.rpartition("=")
        if not equals:
            if len(options.cost) > 1:
                raise UsageError("--cost: give one table, or MODEL=X for each model.")
            return text
        if label in pairs:
            raise UsageError(f"--cost {text}: {label} has a cost already, {pairs[label]:g}; give one of them.")
        try:
            pairs[label] = float(number)
        except ValueError as error:
            raise UsageError(f"--cost {text}: give a table, or MODEL=X with a number.") from error
    if options.cost_column is not None:
        raise UsageError("--cost-column names a column of a table: give one with --cost FILE.")
    return pairs


def choice_of(options: Namespace, source: Any, analysis: dict[str, Any], **more: Any) -> Choice:
    """Return the choice between the models of a source, votes, results or boards, by the costs of the options."""
    kept = analysis if not hasattr(source, "analysis") else {}
    asked = {"weights": analysis["weights"], "level": analysis["level"], "min_battles": options.min_battles}
    others = {name: value for name, value in kept.items() if name not in asked}
    return choose(
        source, read_costs(options), column=options.cost_column, margin=options.margin, **asked, **more, **others
    )


def run_choose(options: Namespace) -> None:
    """Print and write which models are worth their cost."""
    targets = [check_target(path, (*TABLES, *PICTURES)) for path in options.out]
    analysis = analysis_options(options)
    read_costs(options)
    data: Any = results_of(options.file) or load(options)
    if options.board == "all":
        raise UsageError("--board all: a choice is made on one board; the routing table has all categories.")
    found = choice_of(options, data, analysis, context=read_board(options.board, data), top=options.top)
    for path in targets:
        if path.suffix.lower() in PICTURES:
            _draw(found, path)
        else:
            write_result(path, found, f"Choice between the models of {file_title(options.file)}")
    if not options.quiet:
        show(found)
    for path in targets:
        say(f"wrote {path}")


def _draw(found: Choice, path: Any) -> None:
    from lrbtl.show.plots import plot_choice, save_picture

    save_picture(plot_choice(found), path)
