"""Files that are written whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path

from lrbtl.errors import OutputPathError


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a scratch file next to `path`, then put it in place of `path`.

    If `write` fails, the scratch file is removed and `path` stays as it was.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "board.txt"
    ...     write_whole(target, lambda scratch: scratch.write_text("1. a"))
    ...     target.read_text()
    '1. a'
    """
    path = Path(path)
    if path.is_dir():
        raise OutputPathError(f"cannot write {path}: it is a folder; name a file inside it")
    if not path.parent.is_dir():
        raise OutputPathError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write(scratch)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)
