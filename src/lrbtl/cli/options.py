"""What the options of `lrbtl` mean: battles of a file, analyses, boards; and messages in the words of the options."""

from __future__ import annotations

import contextlib
import re
import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lrbtl.data.battles import Battles
from lrbtl.data.columns import GUESSED, Columns
from lrbtl.data.frames import read_battles
from lrbtl.data.labels import some_of
from lrbtl.data.observations import Data
from lrbtl.data.outcomes import Outcomes
from lrbtl.data.read import STANDARD_INPUT
from lrbtl.errors import UsageError
from lrbtl.tables import shown
from lrbtl.typing import Progress


def load(options: Namespace) -> Battles:
    """Return the battles of the file, and say what was guessed."""
    return drop_thin_levels(read(options, options.file, columns_of(options)), options.min_level_battles)


def file_title(file: str) -> str:
    """Return what a file is called in titles."""
    return "standard input" if file == STANDARD_INPUT else Path(file).name


def columns_of(options: Namespace) -> Columns:
    """Return the columns that the options name."""
    contexts = tuple(options.context) if options.context else None
    if options.no_context:
        if contexts:
            raise UsageError("--context and --no-context exclude each other; give one of them.")
        contexts = ()
    tags = tuple(name.strip() for name in options.tags.split(",")) if options.tags else ()
    return Columns(options.model_a, options.model_b, options.winner, contexts, options.count, tags)


def read(options: Namespace, source: Any, columns: Columns) -> Battles:
    """Return the battles of a log or a state, and say what was guessed."""
    words = {"outcomes": read_outcome_words(options.outcome), "ties": options.ties, "both_bad": options.both_bad}
    given = {"scorer": options.scorer, "progress": progress_of(options), **words, **vote_fields(options)}
    found = read_battles(source, columns, **given)
    for sentence in found.said:
        say(command_words(sentence))
    kept = [command_words(note) for note in found.battles.notes if not note.startswith(GUESSED)]
    return replace(found.battles, notes=tuple(kept))


def vote_fields(options: Namespace) -> dict[str, Any]:
    """Return what votes carry as options of `Battles.from_frame`."""
    covariates: dict[str, Any] = {}
    for text in options.covariate:
        name, equals, columns = text.partition("=")
        parts = tuple(part.strip() for part in columns.split(",")) if equals else (name,)
        if not (name and all(parts) and len(parts) <= 3):
            raise UsageError(f"--covariate {text}: write NAME=A,B or NAME=A,B,RULE, such as length=tokens_a,tokens_b.")
        covariates[name] = parts[0] if len(parts) == 1 else parts
    given = {"covariates": covariates, "position": options.position, "weight": options.weight}
    given["reweight"] = options.reweight
    if options.cluster:
        given["cluster"] = [name.strip() for name in options.cluster.split(",")]
    return {name: value for name, value in given.items() if value}


def read_control(text: str | None) -> list[str] | None:
    """Return the names of covariates to hold fixed; None for all.

    >>> read_control(None), read_control("none"), read_control("length, position")
    (None, [], ['length', 'position'])
    """
    if text is None:
        return None
    return [] if text == "none" else [name.strip() for name in text.split(",")]


def drop_thin_levels(battles: Battles, fewest: int) -> Battles:
    """Return the battles without context levels that have fewer battles than asked for, and say which."""
    counts = battles.context_counts.reshape(battles.shape[1:])
    kept = {}
    for mode, (name, levels) in enumerate(zip(battles.mode_names, battles.levels, strict=True)):
        others = tuple(k for k in range(counts.ndim) if k != mode)
        enough = counts.sum(axis=others) >= fewest
        if not enough.any():
            raise UsageError(
                f"--min-level-battles {fewest}: no level of {name} has that many battles; give a smaller number."
            )
        kept[name] = [level for level, is_kept in zip(levels, enough, strict=True) if is_kept]
        dropped = [str(level) for level, is_kept in zip(levels, enough, strict=True) if not is_kept]
        if dropped:
            few = f"{len(dropped)} of {len(levels)} levels of {name} with fewer than {fewest} battles"
            say(f"left out {few}: {some_of(dropped, 5)}")
    return battles.select(contexts=kept) if kept else battles


def analysis_options(options: Namespace) -> dict[str, Any]:
    """Return the keyword arguments that all analyses take, checked before any file is read."""
    if not 0.0 < options.level < 1.0:
        raise UsageError(f"--level {options.level:g}: a confidence level lies between 0 and 1, for example 0.95.")
    if options.folds is not None and options.folds < 2:
        raise UsageError(f"--folds {options.folds}: give at least 2.")
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads {options.threads}: give at least 1.")
    return {
        "method": options.method,
        "link": options.link,
        "rank": read_rank(options.rank),
        "weights": read_weights(options.weights),
        "level": options.level,
        "n_threads": options.threads,
        "rng": options.seed,
        "progress": progress_of(options),
        "control": read_control(options.control),
        "effects": options.effects,
        **({} if options.folds is None else {"n_folds": options.folds}),
        **({} if options.valid == "once" else {"valid": options.valid}),
        **({} if options.looks is None else {"looks": options.looks}),
        **({} if options.tuned_at is None else {"tuned_at": options.tuned_at}),
    }


def board_options(options: Namespace) -> dict[str, Any]:
    """Return the keyword arguments that boards take beside those of all analyses."""
    if options.min_battles < 1:
        raise UsageError(f"--min-battles {options.min_battles}: give at least 1.")
    anchor = None if options.anchor is None else _pair(options.anchor, "--anchor", "MODEL=RATING, such as llama=1100")
    return {"scale": options.scale, "anchor": anchor, "min_battles": options.min_battles, "margin": options.margin}


def read_rank(text: str) -> int | tuple[int, ...] | str:
    """Return a rank: a number, numbers joined by commas, or "auto".

    >>> read_rank("3"), read_rank("3,2,2"), read_rank("auto")
    (3, (3, 2, 2), 'auto')
    """
    if text == "auto":
        return text
    try:
        parts = tuple(int(part) for part in text.split(","))
    except ValueError:
        parts = (0,)
    if min(parts) < 1:
        raise UsageError(f"--rank {text}: give a whole number from 1, one per mode joined by commas, or auto.")
    return parts[0] if len(parts) == 1 else parts


def read_weights(text: str) -> str | dict[str, float]:
    """Return weights of contexts: "traffic", "equal", or a mapping.

    >>> read_weights("math=2,code=1")
    {'math': 2.0, 'code': 1.0}
    """
    if text in ("traffic", "equal"):
        return text
    return dict(_pair(part, "--weights", "traffic, equal, or label=number,label=number") for part in text.split(","))


def read_outcome_words(texts: list[str]) -> Outcomes:
    """Return the meaning of outcome words.

    >>> read_outcome_words(["left=1", "skip=drop"])
    {'left': 1.0, 'skip': None}
    """
    meaning: dict[Any, float | str | None] = {}
    for text in texts:
        word, _, value = text.rpartition("=")
        meaning[word] = None if word and value == "drop" else _pair(text, "--outcome", "WORD=NUMBER or WORD=drop")[1]
    return meaning


def _pair(text: str, option: str, form: str) -> tuple[str, float]:
    label, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not label or not np.isfinite(value):
        raise UsageError(f"{option} {text}: give {form}.")
    return label, value


def read_board(text: str, battles: Data) -> Any:
    """Return the context that `--board` names, checked: None for overall, "all", a label, or levels by column."""
    if text in ("overall", "all"):
        return None if text == "overall" else text
    context: Any = text
    if "=" in text and not (len(battles.levels) == 1 and text in battles.levels[0]):
        parts = [part.partition("=") for part in text.split(",")]
        context = {name.strip(): level.strip() for name, _, level in parts}
    battles.context_indices(context)
    return context


def progress_of(options: Namespace) -> Progress | None:
    """Return a function that says progress on stderr, or None."""
    return say if options.progress else None


def say(text: str) -> None:
    """Print a line on stderr, so that stdout holds results only; nobody needs to be able to read it."""
    with contextlib.suppress(OSError):
        print(f"lrbtl: {shown(text)}", file=sys.stderr, flush=True)


def show(*parts: object) -> None:
    """Print a result; what labels must not do to a terminal is written as escapes."""
    print("\n".join(shown(line).rstrip() for line in " ".join(map(str, parts)).split("\n")))


# ------------------------------------------------------------------------------
# Messages of the library in the language of the command line: options instead of arguments.
# ------------------------------------------------------------------------------

OPTIONS = {
    "rank": "--rank",
    "method": "--method",
    "link": "--link",
    "weights": "--weights",
    "min_battles": "--min-battles",
    "level": "--level",
    "scale": "--scale",
    "compat": "--compat",
    "anchor": "--anchor",
    "margin": "--margin",
    "column": "--cost-column",
    "top": "--top",
    "context": "--board",
    "ties": "--ties",
    "valid": "--valid",
    "tuned_at": "--tuned-at",
    "looks": "--looks",
    "n_folds": "--folds",
    "n_threads": "--threads",
    "rng": "--seed",
}
VALUE = r"""('[^']*'|"[^"]*"|\([^()]*\)|[^\s,;:.()]+)"""
ARGUMENT = re.compile(rf"\b({'|'.join(OPTIONS)})={VALUE}")
WRONG_RANK = re.compile(rf"^(rank) {VALUE}(?= is not possible| has \d)")


def _column_option(found: re.Match[str]) -> str:
    return f"--{found[1].replace('_', '-')} COLUMN"


PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"^`scale` is", "--scale is"),
    (r"^`n` is", "--battles is"),
    (r"leave context out, or name their columns", "leave --board out, or name a column with --context"),
    (
        r"name (it|them): Battles\.read\(votes, ([^)]+)\)",
        lambda found: f"name {found[1]} with " + re.sub(r"(\w+)=\.\.\.,?", _column_option, found[2]),
    ),
    (
        r"(contexts from .*)\(Battles.read names others\)",
        r"\1(--context COLUMN names another, --no-context uses none)",
    ),
    (r" \(Battles.read names others\)", ""),
    (r"Battles\.from_frame\(\.\.\., tags=\.\.\.\)", "--tags COLUMN"),
    (r"outcomes=\{[^}]*\}", "--outcome WORD=NUMBER or WORD=drop"),
    (r"drop them with battles\.select\(\.\.\.\)", "leave their rows out of the file"),
    (r"leave them out with battles\.select\(\.\.\.\)", "leave their rows out of the file"),
    (r"give a tuple with one level of each, None for", "join one level of each by ' / ', * for"),
    (r" in `islands`", ""),
    (r"(give a smaller ridge, or|or a larger ridge|, a larger ridge)", ""),
)


def command_words(text: str) -> str:
    """Return a message with options of the command line in place of arguments.

    >>> command_words("rank=9 is not possible: choose 1 to 5, or rank='auto'.")
    '--rank 9 is not possible: choose 1 to 5, or --rank auto.'
    >>> command_words("anchor=('x', 1000.0) and rank=(3, 2)")
    '--anchor x=1000.0 and --rank 3,2'
    """
    for phrase, words in PHRASES:
        text = re.sub(phrase, words, text)
    return ARGUMENT.sub(_option, WRONG_RANK.sub(_option, text))


def _option(found: re.Match[str]) -> str:
    return f"{OPTIONS[found[1]]} {_value(found[1], found[2])}"


def _value(name: str, text: str) -> str:
    if text[0] == "(":
        parts = [part.strip().strip("'\"") for part in text.strip("()").split(",") if part.strip()]
        return ("=" if name == "anchor" else " / " if name == "context" else ",").join(parts)
    return text.strip("'\"")
