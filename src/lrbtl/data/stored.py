"""What battles can do with files: be read from logs, saved, loaded, and distinguished."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, partial
from hashlib import sha256
from inspect import Parameter
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from lrbtl.data.cells import Cells
from lrbtl.data.columns import CARRIED, Columns
from lrbtl.data.encode import as_names
from lrbtl.data.logs import Where
from lrbtl.data.read import read_votes
from lrbtl.data.state import read_state, write_state
from lrbtl.options import strict
from lrbtl.progress import as_progress
from lrbtl.typing import Progress

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles


def carried_options() -> list[Parameter]:
    """Return the options of reading that `from_frame` explains."""
    return [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in CARRIED.items()]


class Stored:
    """What battles can do with files; `Battles` is one of these."""

    if TYPE_CHECKING:
        models: tuple[Any, ...]
        levels: tuple[tuple[Any, ...], ...]
        cells: Cells
        mode_names: Any

    @classmethod
    @partial(strict, more=carried_options())
    def read(
        cls,
        source: Any,
        *,
        model_a: str | None = None,
        model_b: str | None = None,
        winner: str | None = None,
        contexts: str | Sequence[str] | None = None,
        tags: str | Sequence[str] | None = None,
        count: str | None = None,
        where: Where | None = None,
        scorer: str | None = None,
        progress: Progress | bool | None = None,
        **options: Any,
    ) -> Battles:
        r"""Battles of anything that holds votes: files, folders, patterns, streams, frames, files of evaluation tools.

        This is what the command line does, and what `leaderboard(votes)` does with a frame or a path. Logs need not fit
        into memory: rows are counted as they are read, and only the columns needed. Columns that are not named are
        guessed from common names; what was guessed, left out or weighted is in `notes`, and printed with every result.

        Parameters
        ----------
        source : path, list of paths, stream, data frame, list of dicts, or anything with Arrow streams
            A path is a file (CSV, TSV, JSON, JSON lines, Parquet, also .gz; a state that `save` wrote), a folder, a
            pattern such as ``"logs/2026-*.parquet"``, or "-" for standard input. Files of LMArena, FastChat,
            arena-hard-auto, AlpacaEval, MT-Bench and Inspect are recognised; a folder reads like its files.
        model_a, model_b, winner, count : str, optional
            Columns; common names are guessed.
        contexts : str or sequence of str, optional
            Columns of categories. By default one of a common name such as "category" or "task"; () for none.
        tags : str or sequence of str, optional
            Columns of tags; see `from_frame`.
        where : list of conditions, optional
            ``[("day", ">=", 20), ...]``, all of which rows must meet, or a pyarrow expression. For Parquet and Arrow
            datasets; row groups and folders (day=20) in which no row can meet them are not read.
        scorer : str, optional
            Of an Inspect log, the scorer that votes; by default all that name a winner.
        progress : True or callable, optional
            Called with a line of text now and then; True shows one on stderr.
        **options
            Outcomes and what votes carry: see `from_frame`.

        Examples
        --------
        >>> import lrbtl, tempfile
        >>> path = tempfile.mkdtemp() + "/votes.csv"
        >>> with open(path, "w") as file:
        ...     _ = file.write("model_a,model_b,winner,task\nx,y,model_a,code\ny,x,tie,math\n")
        >>> battles = lrbtl.Battles.read(path)
        >>> battles.mode_names, battles.notes
        (('task',), ('guessed contexts from column task (Battles.read names others)',))
        """

        def names(given: str | Sequence[str] | None) -> tuple[str, ...] | None:
            return None if given is None else as_names(given, "contexts and tags")

        wanted = Columns(model_a, model_b, winner, names(contexts), count, names(tags) or ())
        kind, listener = cast("type[Battles]", cls), as_progress(progress)
        return read_votes(kind, source, wanted, where=where, scorer=scorer, progress=listener, **options).battles

    @classmethod
    def scan(cls, source: Any, **options: Any) -> Battles:
        r"""Battles of a log, as `read` has them: another name of it.

        Examples
        --------
        >>> import lrbtl, tempfile
        >>> path = tempfile.mkdtemp() + "/votes.csv"
        >>> with open(path, "w") as file:
        ...     _ = file.write("model_a,model_b,winner,task\nx,y,model_a,code\ny,x,tie,math\n")
        >>> lrbtl.Battles.scan(path, contexts="task")
        Battles(shape=(2, 2), n_battles=2, n_cells=2)
        """
        return cls.read(source, **options)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of labels and counted votes: the same for the same battles, whatever the order of their rows.

        Examples
        --------
        >>> import lrbtl
        >>> one = lrbtl.Battles.from_arrays(["x", "y"], ["y", "x"], [1, 0])
        >>> other = lrbtl.Battles.from_arrays(["x"], ["y"], [1], counts=[2])
        >>> one.digest == other.digest
        True
        """
        found = sha256(repr((self.models, self.mode_names, self.levels)).encode())
        for name in ("context", "a", "b", "y", "count", "slopes", "weight", "clusters"):
            part = getattr(self.cells, name)
            if part is not None:
                found.update(name.encode())
                found.update(np.ascontiguousarray(part, part.dtype.newbyteorder("<")).tobytes())
        return found.hexdigest()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the battles into one file, whole or not at all; `load` reads it.

        The file holds cells, labels and the version of its format, no code. Its size follows the number of cells.

        Examples
        --------
        >>> import lrbtl, tempfile
        >>> battles = lrbtl.Battles.from_arrays(["x", "x"], ["y", "z"], [1, 0.5])
        >>> path = tempfile.mkdtemp() + "/state.lrbtl"
        >>> battles.save(path)
        >>> lrbtl.Battles.load(path)
        Battles(shape=(3,), n_battles=2, n_cells=2)
        """
        write_state(path, cast("Battles", self))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Battles:
        """Battles from a file that `save` wrote.

        A file that is cut off, damaged or of another kind raises `FileReadError`, one of a newer format
        `StateVersionError`.

        Examples
        --------
        >>> import lrbtl, tempfile
        >>> today = lrbtl.Battles.from_arrays(["x"], ["y"], [1])
        >>> path = tempfile.mkdtemp() + "/state.lrbtl"
        >>> today.save(path)
        >>> (lrbtl.Battles.load(path) + today).n_battles
        2
        """
        return read_state(path, cast("type[Battles]", cls))[0]
