"""The command `lrbtl`: boards, comparisons, diagnostics, simulations and reports from files of battles."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: these matrices are too small for threads

from lrbtl.errors import LrbtlError, LrbtlWarning, UsageError, heard_by
from lrbtl.files import WAIT
from lrbtl.tables import shown

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NO_DECISION, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
Formatter = argparse.RawDescriptionHelpFormatter

EXAMPLES = """\
examples:
  lrbtl demo                                           an arena that we made up, to see everything at work
  lrbtl doctor votes.csv                               what the file is, and what to run
  lrbtl leaderboard votes.csv                          the overall board, columns guessed
  lrbtl leaderboard votes.csv.gz --board all --out boards.csv
  lrbtl leaderboard votes.parquet --context language --board French --top 20
  lrbtl compare votes.csv model-x model-y              one pair in every category
  lrbtl report votes.jsonl -o report.html              one HTML file with everything

exit codes: 0 done, 1 the data or the files do not allow it, 2 wrong options, 130 interrupted;
of `lrbtl gate`: 0 ship, 1 worse, 2 cannot tell, 3 no decision because of the data, the files or the options;
of `lrbtl watch`: 0 may stop, 2 go on
"""
FILE_NOTE = """\
FILE is CSV, TSV, JSON lines or Parquet (also .gz) with one battle per row: two models, who won, and category columns;
a folder of such files, a quoted pattern ('logs/*.parquet'), - for standard input, or a state that `lrbtl add` made.
Files of LMArena, FastChat, arena-hard-auto, AlpacaEval, MT-Bench and Inspect are read as they are, also in folders.
The winner is model_a, model_b, tie, both_bad, or a number from 0 (the second won) to 1 (the first won).
"""

RESULTS_NOTE = """\
FILE has one row per score (model, benchmark, score), or one row per model and one column per benchmark, empty where
nothing was measured.
"""


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Return what was read; raise for an option that this command does not have, with the nearest one."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            near = get_close_matches(rest[0].partition("=")[0], self._option_string_actions, n=1)
            self.error(f"unrecognized arguments: {' '.join(rest)}{f'; did you mean {near[0]}?' if near else ''}")
        return found, rest

    def error(self, message: str) -> Any:
        """Raise instead of printing the usage."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a console that lacks a character gets an escape instead
            stream.reconfigure(errors="backslashreplace")
    arguments = list(sys.argv[1:] if argv is None else argv)
    show_traceback = "--traceback" in arguments
    decides = arguments[:1] == ["gate"]
    failed, wrong, unread = (EXIT_NO_DECISION,) * 3 if decides else (EXIT_FAILED, EXIT_USAGE, EXIT_OK)
    try:
        options = build_parser(arguments).parse_args(arguments)
        with heard_by(_show_once()):
            module, name = options.run.split(":")
            code = getattr(import_module(f"lrbtl.cli.{module}"), name)(options) or EXIT_OK
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a full disk can still be reported
            return int(code)
    except SystemExit as stop:  # --help and --version
        return int(stop.code or 0)
    except LrbtlError as error:
        if decides and "--json" in arguments:
            text = " ".join([_in_words(str(error)), *getattr(error, "__notes__", ())])
            content = {"decision": "no decision", "error": error.code, "message": text, "data": error.data}
            print(json.dumps(content, ensure_ascii=False, default=str))
        return _fail(error, show_traceback, wrong if isinstance(error, UsageError) else failed)
    except KeyboardInterrupt:
        print("lrbtl: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of our output has gone, which is its right
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return unread
    except OSError as error:
        with contextlib.suppress(OSError):  # what could not be written is not tried again at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail(error, show_traceback, failed, f"cannot write the output: {error.strerror or error}")
    except MemoryError as error:
        return _fail(error, show_traceback, failed, "not enough memory: use fewer models or contexts")
    except Exception as error:
        kind = type(error).__name__
        return _fail(error, show_traceback, failed, f"unexpected {kind}: {error} (--traceback shows where)")


def _fail(error: BaseException, show_traceback: bool, code: int, message: str | None = None) -> int:
    if show_traceback:
        traceback.print_exception(error)
    own = isinstance(error, UsageError)  # in the words of the command line already
    text = message if message is not None else str(error) if own else _in_words(str(error))
    text = " ".join([text, *getattr(error, "__notes__", ())])
    with contextlib.suppress(OSError):  # nobody listens
        print(f"lrbtl: {shown(' '.join(text.split()))}", file=sys.stderr)
    return code


def _in_words(text: str) -> str:
    """Return a message in the words of the command line."""
    from lrbtl.cli.options import command_words

    return command_words(text)


def _show_once() -> Callable[[LrbtlWarning], None]:
    """Return a function that prints each warning once."""
    printed: set[str] = set()

    def show(warning: LrbtlWarning) -> None:
        text = f"lrbtl: warning: {shown(' '.join(_in_words(str(warning)).split()))}"
        if text not in printed:
            printed.add(text)
            print(text, file=sys.stderr)

    return show


def build_parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of all commands, with the options of those that the arguments name."""
    parser = Parser(
        prog="lrbtl",
        description="Leaderboards from pairwise battles with honest uncertainty.",
        epilog=EXAMPLES,
        formatter_class=Formatter,
    )
    parser.add_argument("--version", action="version", version=f"lrbtl {version('lrbtl')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, (usage, run, text, epilog, add) in COMMANDS.items():
        command = _command(commands, name, usage, run, text, epilog)
        if name in arguments:  # options of a command name methods and links, which take a second to import
            add(command)
    return parser


def _command(commands: Any, name: str, usage: str, run: str, text: str, epilog: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"lrbtl {name} {usage}",
        help=text,
        description=text[0].upper() + text[1:] + ".",
        epilog=epilog,
        formatter_class=Formatter,
    )
    parser.set_defaults(run=run)
    parser.add_argument("--traceback", action="store_true", help="show where an error came from")
    return parser


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", metavar="FILE", help="battles: .csv, .tsv, .jsonl, .parquet (also .gz), a folder, - or a .lrbtl state"
    )
    _add_columns(parser)
    parser.add_argument(
        "--min-level-battles", type=int, default=1, metavar="N", help="leave out categories with fewer votes than N"
    )


def _add_columns(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("columns (common names are guessed, and said)")
    group.add_argument("--model-a", metavar="COLUMN", help="first model")
    group.add_argument("--model-b", metavar="COLUMN", help="second model")
    group.add_argument("--winner", metavar="COLUMN", help="who won: model_a, model_b, tie, both_bad, or 0 to 1")
    group.add_argument("--context", metavar="COLUMN", action="append", help="category column; give it again for more")
    group.add_argument(
        "--tags",
        metavar="COLUMN,...",
        help="categories of which a vote may have several: a column of lists or of text such as 'math;code', "
        "or several columns of 0 and 1",
    )
    group.add_argument("--no-context", action="store_true", help="use no category column")
    group.add_argument("--scorer", metavar="NAME", help="of an Inspect log: the scorer that votes, by default all")
    group.add_argument("--count", metavar="COLUMN", help="how often a row happened")
    group = parser.add_argument_group("votes")
    group.add_argument(
        "--outcome", metavar="WORD=NUMBER", action="append", default=[], help="meaning of a word: 0 to 1, or 'drop'"
    )
    group.add_argument("--ties", choices=("half", "drop"), default="half", help="ties: half a win for both, or dropped")
    group.add_argument(
        "--both-bad",
        choices=("tie", "drop", "outcome"),
        default="tie",
        help="votes that both are bad: ties, dropped, or an outcome of their own, which gives scores a zero",
    )
    _add_votes(group)


def _add_votes(group: Any) -> None:
    group.add_argument(
        "--covariate",
        metavar="NAME=A,B[,RULE]",
        action="append",
        default=[],
        help="hold a pair of columns fixed, such as length=tokens_a,tokens_b; rules: relative (default), difference, "
        "log. NAME=COLUMN for a column that is a difference already. Repeatable",
    )
    group.add_argument("--position", action="store_true", help="model_a was shown first: hold that fixed")
    group.add_argument("--weight", metavar="COLUMN", help="weight of each vote")
    group.add_argument("--reweight", choices=("pairs",), help="all pairs of models count equally, as in arena-rank")
    group.add_argument("--cluster", metavar="COLUMN,...", help="voter, session or prompt whose votes may be correlated")


def _add_analysis(parser: argparse.ArgumentParser) -> None:
    from lrbtl.inference.analysis import DEFAULT_METHOD, METHODS
    from lrbtl.model.links import LINKS, TIE_LINKS

    group = parser.add_argument_group("analysis")
    group.add_argument("--method", choices=tuple(METHODS), default=None, help=f"default: {DEFAULT_METHOD}")
    group.add_argument(
        "--link",
        choices=tuple(name for name in LINKS if name != "identity"),
        help=f"law of a vote; {' and '.join(TIE_LINKS)} model ties (default: logistic)",
    )
    group.add_argument("--rank", default="auto", metavar="R", help="rank of the scores: a number or auto (default)")
    group.add_argument(
        "--weights",
        default="traffic",
        metavar="W",
        help="weights of categories overall: traffic (default), equal, or label=number,label=number",
    )
    group.add_argument("--control", metavar="NAME,...", help="covariates to hold fixed (default: all; none for none)")
    group.add_argument(
        "--effects", choices=("shared", "by_context"), default="shared", help="one effect each, or one per category"
    )
    group.add_argument("--level", type=float, default=0.95, metavar="P", help="confidence level (default 0.95)")
    group.add_argument(
        "--valid",
        choices=("once", "always"),
        default="once",
        help="once (default): intervals hold at one look; always: however often one looks as votes come in",
    )
    group.add_argument("--looks", type=int, metavar="K", help="planned looks, at all of which intervals hold")
    group.add_argument(
        "--tuned-at", type=float, metavar="N", help="votes at which --valid always is tightest, or at the last look"
    )
    group.add_argument("--folds", type=int, metavar="K", help="folds of efficient and whitened (10)")
    group.add_argument("--threads", type=_threads, default=1, metavar="N", help="threads: a number, or all (default 1)")
    group.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the folds (default 0)")
    group.add_argument("--progress", action="store_true", help="say what is going on, on stderr")


def _threads(text: str) -> int | None:
    return None if text == "all" else int(text)


def _add_view(group: Any) -> None:
    group.add_argument("--scale", choices=("elo", "logit", "probability"), default="elo", help="default: elo")
    group.add_argument("--anchor", metavar="MODEL=RATING", help="shift ratings so that this model has this one")
    group.add_argument(
        "--min-battles",
        type=int,
        default=30,
        metavar="N",
        help="models with fewer votes are preliminary: listed below the others, without a rank (default 30)",
    )
    _add_margin(group)


def _add_margin(group: Any) -> None:
    group.add_argument(
        "--margin",
        type=float,
        metavar="M",
        help="a gap that does not matter, for the verdict 'equivalent': Elo points, or below 0.5 win probability",
    )


def _add_leaderboard(parser: argparse.ArgumentParser) -> None:
    from lrbtl.boards.compat import COMPAT

    _add_file(parser)
    group = parser.add_argument_group("board")
    group.add_argument(
        "--board",
        default="overall",
        metavar="WHICH",
        help="overall (default), all, or a category: 'math', for several columns 'math / crowd' (* for all levels); "
        "column=level names one whatever it is called",
    )
    _add_view(group)
    group.add_argument("--compat", choices=COMPAT, help="that package's arithmetic instead")
    group.add_argument("--top", type=int, metavar="N", help="print and draw the N best only")
    group.add_argument(
        "--out", metavar="FILE", action="append", default=[], help=".csv .json .md .html .txt .png .svg; repeatable"
    )
    group.add_argument("--quiet", action="store_true", help="print no table")
    _add_analysis(parser)


def _add_compare(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("a", metavar="A", help="a model")
    parser.add_argument("b", metavar="B", help="another model")
    _add_margin(parser)
    parser.add_argument("--out", metavar="FILE", action="append", default=[], help=".csv .json .md .html .txt")
    parser.add_argument("--quiet", action="store_true", help="print no table")
    _add_analysis(parser)


def _add_doctor(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="any file that may hold battles")


def _add_gate(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    group = parser.add_argument_group("decision")
    group.add_argument("--candidate", metavar="A", required=True, help="the model that may ship")
    group.add_argument("--baseline", metavar="B", required=True, help="the model that it would replace")
    group.add_argument("--category", default="overall", metavar="WHICH", help="as --board of leaderboard does it")
    group.add_argument("--json", action="store_true", help="print JSON instead of one line")
    _add_margin(group)
    _add_analysis(parser)


def _add_forecast(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="scores: .csv, .tsv, .jsonl or .parquet (also .gz)")
    parser.add_argument("--model", metavar="M", action="append", help="a model; repeatable (default: all)")
    parser.add_argument("--benchmark", metavar="B", action="append", help="a benchmark; repeatable (default: all)")
    parser.add_argument("--level", type=float, default=0.95, metavar="P", help="of prediction intervals (0.95)")
    _add_out(parser)
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed of the sampler (default 0)")


def _add_diagnose(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    _add_analysis(parser)


def _add_report(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="the .html file")
    parser.add_argument("--title", default="Leaderboard", help="title of the page")
    parser.add_argument(
        "--meta",
        metavar="FILE",
        help="more columns of the models, such as organisation, licence, price, link: .csv, .tsv, .json or .jsonl with "
        "a column 'model'",
    )
    _add_costs(parser, required=False)
    parser.add_argument(
        "--stability",
        action="store_true",
        help="a tab on how many votes, voters or (of --meta) organisations the first place rests on; takes new fits",
    )
    parser.add_argument(
        "--rank-sets",
        type=int,
        metavar="K",
        help="tabs with ranks that hold for all models in all categories at once, and with tests of 'among the top K'",
    )
    _add_view(parser)
    _add_analysis(parser)


def _add_costs(group: Any, *, required: bool) -> None:
    group.add_argument(
        "--cost",
        metavar="FILE|MODEL=X",
        action="append",
        default=[],
        required=required,
        help="a table of costs (.csv, .tsv, .json, .jsonl) with a column 'model', or what one model costs. Repeatable",
    )
    group.add_argument("--cost-column", metavar="COLUMN", help="the column of the table that holds the cost")


def _add_choose(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    group = parser.add_argument_group("choice")
    _add_costs(group, required=True)
    group.add_argument("--board", default="overall", metavar="WHICH", help="overall (default) or a category")
    group.add_argument(
        "--margin", type=float, metavar="M", help="a loss that does not matter, in points: name cheaper models"
    )
    group.add_argument("--top", type=int, default=3, metavar="K", help="of the probability to be among the K best (3)")
    group.add_argument("--min-battles", type=int, default=30, metavar="N", help="as of leaderboard (default 30)")
    group.add_argument(
        "--out", metavar="FILE", action="append", default=[], help=".csv .json .md .html .txt .png .svg; repeatable"
    )
    group.add_argument("--quiet", action="store_true", help="print no table")
    _add_analysis(parser)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    group = parser.add_argument_group("question")
    group.add_argument("--goal", default="first", metavar="GOAL", help="first (default), top=K, or gap=A,B")
    group.add_argument("--stop", type=int, metavar="N", help="votes at which to stop even if nothing is decided")
    group.add_argument("--category", default="overall", metavar="WHICH", help="as --board of leaderboard does it")
    group.add_argument("--json", action="store_true", help="print JSON")
    _add_margin(group)
    _add_analysis(parser)


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("state", metavar="STATE", help="a .lrbtl file, made where there is none")
    parser.add_argument("files", metavar="FILE", nargs="+", help="battles: files, folders, quoted patterns or -")
    _add_columns(parser)
    parser.add_argument("--again", action="store_true", help="count files that went in before once more")
    parser.add_argument(
        "--wait", type=float, default=WAIT, metavar="S", help="seconds to wait for another `add` to this state (600)"
    )
    parser.add_argument("--progress", action="store_true", help="say what is going on, on stderr")


def _add_demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="also write board.csv, board.png, report.html here")
    parser.add_argument("--progress", action="store_true", help="say what is going on, on stderr")


def _add_simulate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--out", metavar="FILE", required=True, help="a .csv or .csv.gz file")
    parser.add_argument("--models", type=int, default=20, metavar="N", help="default 20")
    parser.add_argument("--contexts", type=int, default=5, metavar="N", help="default 5; 0 for none")
    parser.add_argument("--battles", type=int, default=20_000, metavar="N", help="default 20000")
    parser.add_argument("--rank", type=int, default=2, metavar="R", help="rank of the true scores (default 2)")
    parser.add_argument("--scale", type=float, default=1.5, metavar="X", help="largest true score, log odds (1.5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="seed (default 0)")
    parser.add_argument("--demo", action="store_true", help="the battles of `lrbtl demo` instead")


def _add_out(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", metavar="FILE", action="append", default=[], help=".csv .json .md .html .txt")
    parser.add_argument("--quiet", action="store_true", help="print no table")


def _add_changes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="votes or a state of then, or a board (.json)")
    parser.add_argument("after", metavar="AFTER", help="those of now")
    _add_columns(parser)
    _add_out(parser)
    _add_analysis(parser)


def _add_history(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("--time", metavar="COLUMN", required=True, help="dates, times, years, or seconds since 1970")
    parser.add_argument(
        "--period", metavar="P", help="day, week, month, quarter, year, or a number of periods; chosen by default"
    )
    parser.add_argument("--min-battles", type=int, default=30, metavar="N", help="as of leaderboard (default 30)")
    parser.add_argument("--level", type=float, default=0.95, metavar="P", help="confidence level (default 0.95)")
    _add_out(parser)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("n", metavar="N", type=float, help="number of votes or runs to come, or what they may cost")
    parser.add_argument("--goal", metavar="GOAL", help="gaps (default), top=K, or rank=MODEL")
    parser.add_argument("--model", metavar="M", help="the same as --goal rank=M")
    parser.add_argument("--category", default="overall", metavar="WHICH", help="as --board of leaderboard does it")
    text = "what a vote costs in a category, or a run of a benchmark; 1 where it is not said. Repeatable"
    parser.add_argument("--cost", metavar="LABEL=NUMBER", action="append", default=[], help=text)
    _add_out(parser)
    _add_analysis(parser)


def _add_votes_needed(parser: argparse.ArgumentParser) -> None:
    _add_file(parser)
    parser.add_argument("a", metavar="A", help="a model")
    parser.add_argument("b", metavar="B", help="another model")
    parser.add_argument("--category", default="overall", metavar="WHICH", help="as --board of leaderboard does it")
    parser.add_argument("--half-width", type=float, metavar="W", help="half the width of the interval, in Elo points")
    parser.add_argument("--power", type=float, metavar="P", help="with which the gap shall be shown (default 0.8)")
    parser.add_argument("--gap", type=float, metavar="G", help="the gap that there is, in Elo points")
    parser.add_argument("--json", action="store_true", help="print JSON")
    _add_margin(parser)
    _add_analysis(parser)


BOARD_NOTE = FILE_NOTE + "\n" + "\n".join(EXAMPLES.splitlines()[:1] + EXAMPLES.splitlines()[3:6])
GATE_NOTE = (
    "exit codes: 0 ship, 1 worse, 2 cannot tell, 3 no decision because of the data, the files or the options\n\n"
    "example:\n  lrbtl gate votes.csv --candidate new --baseline old --margin 10 --category math"
)
ADD_NOTE = FILE_NOTE + (
    "\nexample, every night:\n"
    "  lrbtl add state.lrbtl logs/today.parquet && lrbtl leaderboard state.lrbtl --out board.json\n\n"
    "The state keeps a digest of every file. A file that went in before is refused; in a folder or pattern it is\n"
    "left out. Columns of categories are those of the state. Give the same options for votes every time.\n"
    "One process at a time changes a state; others wait.\n"
)
DOCTOR_NOTE = (
    "Tables, and what LMArena, arena-hard-auto, AlpacaEval, MT-Bench and Inspect write; rankings of answers too."
)
CHANGES_NOTE = FILE_NOTE + (
    "\nOf two files of votes the errors know the votes that both hold. Of two saved boards (.json) they do not: votes\n"
    "are taken to be others, and intervals are too wide where they are the same.\n"
)
FORECAST_NOTE = RESULTS_NOTE + "\nexample:\n  lrbtl forecast scores.csv --model gpt-x --out forecast.csv"
PLAN_NOTE = (
    f"{FILE_NOTE}\nTo plan runs of benchmarks, {RESULTS_NOTE}\n"
    "examples:\n  lrbtl plan votes.csv 1000 --goal top=5\n"
    "  lrbtl plan scores.csv 10 --goal rank=gpt-x --cost hle=5"
)
CHOOSE_NOTE = (
    f"{FILE_NOTE}\nOf benchmark scores, {RESULTS_NOTE}\n"
    "examples:\n  lrbtl choose votes.csv --cost prices.csv --cost-column output_price --margin 10\n"
    "  lrbtl choose votes.csv --cost small=0.5 --cost large=10 --weights coding=3,maths=1 --out choice.png"
)
WATCH_NOTE = FILE_NOTE + (
    "\nexample, every night:\n"
    "  lrbtl add state.lrbtl logs/today.parquet && lrbtl watch state.lrbtl --goal gap=new,old --stop 50000\n\n"
    "A state remembers the question and the looks. Answers hold at all looks together.\n"
    "exit codes: 0 may stop, 2 go on, 1 the data or the files do not allow it\n"
)
DEMO_NOTE = "Models, votes and results of the demo are made up."
SIMULATE_NOTE = "example:\n  lrbtl simulate --models 20 --contexts 5 --battles 50000 --out votes.csv.gz"
GATE_USAGE = "FILE --candidate A --baseline B [options]"
# name: usage, what runs, what it does, more help, and what adds its options
COMMANDS: dict[str, tuple[str, str, str, str, Callable[[argparse.ArgumentParser], None]]] = {
    "demo": ("[options]", "commands:run_demo", "show everything at work on a simulated arena", DEMO_NOTE, _add_demo),
    "doctor": (
        "FILE", "doctor:run_doctor", "say what a file is, what it supports, and what to run", DOCTOR_NOTE, _add_doctor,
    ),
    "leaderboard": (
        "FILE [options]", "commands:run_leaderboard", "rank the models of a file of battles", BOARD_NOTE,
        _add_leaderboard,
    ),
    "compare": (
        "FILE A B [options]", "commands:run_compare", "compare two models in every category", FILE_NOTE, _add_compare,
    ),
    "gate": (GATE_USAGE, "commands:run_gate", "say whether a model may replace another", GATE_NOTE, _add_gate),
    "choose": (
        "FILE --cost FILE [options]", "choices:run_choose", "say which models are worth their cost", CHOOSE_NOTE,
        _add_choose,
    ),
    "watch": (
        "STATE [options]", "watches:run_watch", "answer a question every day, and say when to stop", WATCH_NOTE,
        _add_watch,
    ),
    "changes": (
        "BEFORE AFTER [options]", "questions:run_changes", "say what changed from one board to another", CHANGES_NOTE,
        _add_changes,
    ),
    "history": (
        "FILE --time COLUMN [options]", "questions:run_history", "follow ratings over time", FILE_NOTE, _add_history,
    ),
    "forecast": (
        "FILE [--model M] [options]", "results:run_forecast", "forecast scores that were not measured", FORECAST_NOTE,
        _add_forecast,
    ),
    "plan": (
        "FILE N [options]", "questions:run_plan", "say where the next N votes should go, or which benchmarks to run",
        PLAN_NOTE, _add_plan,
    ),
    "votes-needed": (
        "FILE A B [options]", "questions:run_votes_needed", "say how many more votes a gap needs", FILE_NOTE,
        _add_votes_needed,
    ),
    "diagnose": (
        "FILE [options]", "commands:run_diagnose", "say what a file of battles can and cannot show", FILE_NOTE,
        _add_diagnose,
    ),
    "report": (
        "FILE -o REPORT.html [options]", "commands:run_report", "write everything into one HTML file", FILE_NOTE,
        _add_report,
    ),
    "add": (
        "STATE.lrbtl FILE [FILE ...] [options]", "commands:run_add", "add the battles of files to a state", ADD_NOTE,
        _add_add,
    ),
    "simulate": (
        "--out FILE [options]", "commands:run_simulate", "write a file of simulated battles", SIMULATE_NOTE,
        _add_simulate,
    ),
}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
