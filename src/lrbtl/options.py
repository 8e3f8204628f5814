"""What a call says about an option that it does not have: the function by name, and the nearest option."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar

from lrbtl.errors import OptionError

Function = TypeVar("Function", bound=Callable[..., Any])

OTHER_NAMES = {  # what options are called elsewhere
    "alpha": "level", "confidence": "level", "conf_level": "level", "ci": "level", "significance_level": "level",
    "seed": "rng", "random_state": "rng", "n_jobs": "n_threads", "threads": "n_threads", "n_splits": "n_folds",
    "folds": "n_folds", "verbose": "progress", "category": "context", "by": "context", "groupby": "context",
    "min_votes": "min_battles", "covariate": "control", "style": "control", "baseline": "anchor",
    "reference": "anchor", "threshold": "margin", "date": "time", "timestamp": "time", "freq": "period",
}  # fmt: skip
VOTES = ("battles", "results", "state")  # first parameters that take what holds votes
ALPHA = ("alpha", "significance_level")
BOOTSTRAP = ("bootstrap", "n_bootstrap", "n_boot", "n_resamples", "num_bootstrap", "num_round")


def strict(
    function: Function, more: Sequence[inspect.Parameter] = (), reads: Callable[[], Iterable[str]] | None = None
) -> Function:
    """Return a function that names itself and the nearest option where it is given one that it does not have.

    Parameters
    ----------
    more : sequence of Parameter
        Those that its `**options` stand for, which `help` then lists.
    reads : callable, optional
        Names of the options of reading votes, which it does not take.

    >>> strict(lambda votes, *, level=0.95: None)([], alpha=0.05)
    Traceback (most recent call last):
    lrbtl.errors.OptionError: <lambda>() has no option 'alpha': give level=, which is 1 - alpha.
    """
    signature = inspect.signature(function)
    parameters = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    own = {each.name for each in parameters}
    more = [each for each in more if each.name not in own]
    known = [each.name for each in (*parameters, *more) if each.name not in ("cls", "self")]
    name = function.__qualname__.rpartition("<locals>.")[2].replace("Stored.", "Battles.")

    @wraps(function)
    def checked(*args: Any, **given: Any) -> Any:
        for option in given:
            if option not in known:
                raise OptionError(
                    option_advice(name, option, known, () if reads is None else reads()),
                    argument=option,
                    function=name,
                )
        return function(*args, **given)

    if more:
        checked.__signature__ = signature.replace(parameters=[*parameters, *more])  # type: ignore[attr-defined]
    return checked  # type: ignore[return-value]


def option_advice(function: str, name: str, known: Sequence[str], reads: Iterable[str] = ()) -> str:
    """Return what to do about an option that a function does not have; `reads` are those of reading votes.

    >>> option_advice("leaderboard", "seed", ["rng", "level"])
    "leaderboard() has no option 'seed': give rng=."
    >>> option_advice("plan", "tags", ["battles", "rng"], ["tags"])
    "plan() has no option 'tags': it says how votes are read. Write plan(Battles.read(votes, tags=...))."
    """
    wrong = f"{function}() has no option {name!r}"
    if name in reads:
        read = f"Battles.read(votes, {name}=...)"
        first = known[0] if known else ""
        write = f"Write {function}({read})" if first in VOTES else f"Give it there: {read}"
        return f"{wrong}: it says how votes are read. {write}."
    if name in BOOTSTRAP:
        return f"{wrong}: intervals come from one fit, without a bootstrap; leave it out."
    other = OTHER_NAMES.get(name, name)
    if other in known:
        return f"{wrong}: give {other}={', which is 1 - alpha' if name in ALPHA else ''}."
    if other == "level":
        return f"{wrong}: ask its result for intervals of a level, such as conf_int(level=0.95)."
    near = get_close_matches(name, known, n=1, cutoff=0.7)
    return f"{wrong}: did you mean {near[0]}=?" if near else f"{wrong}: it has {', '.join(known)}."
