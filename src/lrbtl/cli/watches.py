"""What `lrbtl watch` does."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from lrbtl.boards.watch import watch
from lrbtl.cli.options import analysis_options, load, show
from lrbtl.errors import UsageError

EXIT_GO_ON = 2


def read_goal(text: str) -> Any:
    """Return the goal of a watch.

    >>> read_goal("first"), read_goal("top=3"), read_goal("gap=new,old")
    ('first', ('top', 3), ('gap', 'new', 'old'))
    """
    kind, _, value = text.partition("=")
    parts = [part.strip() for part in value.split(",")]
    if text == "first":
        return text
    if kind == "top" and value.isdigit() and int(value) > 0:
        return kind, int(value)
    if kind == "gap" and len(parts) == 2 and all(parts):
        return kind, *parts
    raise UsageError(f"--goal {text}: give first, top=K, or gap=A,B.")


def run_watch(options: Namespace) -> int:
    """Print today's answer; the exit code says whether votes may stop."""
    analysis = analysis_options(options)
    if analysis.get("valid") == "always":
        del analysis["valid"]  # the default of a watch
    goal = read_goal(options.goal)
    source: Any = options.file if options.file.endswith(".lrbtl") else load(options)
    context = None if options.category == "overall" else options.category
    found = watch(source, goal, stop=options.stop, margin=options.margin, context=context, **analysis)
    show(found.to_json().rstrip() if options.json else found)
    return 0 if found.may_stop else EXIT_GO_ON
