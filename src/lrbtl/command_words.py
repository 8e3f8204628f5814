"""Messages of the library in the language of the command line: options instead of arguments."""

import re

OPTIONS = {
    "rank": "--rank",
    "method": "--method",
    "link": "--link",
    "weights": "--weights",
    "level": "--level",
    "scale": "--scale",
    "compat": "--compat",
    "anchor": "--anchor",
    "context": "--board",
    "ties": "--ties",
    "n_folds": "--folds",
    "n_threads": "--threads",
    "rng": "--seed",
}
VALUE = r"""('[^']*'|"[^"]*"|\([^()]*\)|[^\s,;:.()]+)"""
ARGUMENT = re.compile(rf"\b({'|'.join(OPTIONS)})={VALUE}")
WRONG_RANK = re.compile(rf"^(rank) {VALUE}(?= is not possible| has \d)")
PHRASES = (
    (r"^`scale` is", "--scale is"),
    (r"^`n` is", "--battles is"),
    (r"leave context out, or name their columns", "leave --board out, or name a column with --context"),
    (r"outcomes=\{[^}]*\}", "--outcome WORD=NUMBER or WORD=drop"),
    (r"drop them with battles\.select\(\.\.\.\)", "leave their rows out of the file"),
    (r"leave them out with battles\.select\(\.\.\.\)", "leave their rows out of the file"),
    (r"give a tuple with one level of each, None for", "join one level of each by ' / ', * for"),
    (r" in `islands`", ""),
    (r"(give a smaller ridge, or|or a larger ridge|, a larger ridge)", ""),
)


def command_words(text: str) -> str:
    """Return a message with options of the command line in place of arguments.

    Examples
    --------
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
