"""Battles out of files and streams, and into a file of their own."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from lrbtl.typing import Progress

if TYPE_CHECKING:
    from lrbtl.data.battles import Battles
    from lrbtl.data.cells import Cells


class Stored:
    """What battles can do with files; `Battles` is one of these."""

    if TYPE_CHECKING:
        models: tuple[Any, ...]
        levels: tuple[tuple[Any, ...], ...]
        cells: Cells

        mode_names: Any

    @classmethod
    def scan(
        cls, source: Any, *, where: Sequence[Any] | None = None, progress: Progress | bool | None = None, **options: Any
    ) -> Battles:
        r"""Battles of a log that need not fit into memory: rows are counted as they are read.

        Parameters
        ----------
        source : path, list of paths, binary stream, Arrow dataset, record batch reader or data frame
            A path is a file (Parquet, CSV, TSV or JSON lines, also .gz), a folder of such files, or a pattern such as
            ``"logs/2026-*.parquet"``. Parquet and Arrow need pyarrow. Only the columns needed are read. Frames are read
            as by `from_frame`.
        where : list of conditions, optional
            ``[("day", ">=", 20), ...]``, all of which rows must meet, or a pyarrow expression. For Parquet and Arrow
            datasets; row groups and folders (day=20) in which no row can meet them are not read.
        progress : True or callable, optional
            Called with a line of text now and then; True shows one on stderr.
        **options
            Columns and outcomes: see `from_frame`.

        Returns
        -------
        Battles

        Examples
        --------
        >>> import lrbtl, tempfile
        >>> path = tempfile.mkdtemp() + "/votes.csv"
        >>> with open(path, "w") as file:
        ...     _ = file.write("model_a,model_b,winner,task\nx,y,model_a,code\ny,x,tie,math\n")
        >>> lrbtl.Battles.scan(path, contexts="task")
        Battles(shape=(2, 2), n_battles=2, n_cells=2)
        """
        from lrbtl.data.battles import Battles  # which is one of these
        from lrbtl.data.logs import open_log  # readers are needed where there are files

        return Battles.from_frame(open_log(source, where=where, progress=progress), **options)

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

    def save(self, path: str | PathLike[str]) -> None:
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
        from lrbtl.data.state import write_state  # which builds battles

        write_state(path, self)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Battles:
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
        from lrbtl.data.state import read_state  # which builds battles

        return read_state(path)[0]
