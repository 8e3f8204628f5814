"""Files that several processes and threads share: written whole or not at all, and changed by one at a time."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

from lrbtl.errors import LockedFileError, OutputPathError, spelled

SCRATCH = ".lrbtl-tmp"  # the ending of scratch files
LOCK = ".lock"  # the ending of locks
STALE = 60.0  # seconds after which a scratch file that nobody holds is what a killed process left behind
WAIT = 600.0  # seconds to wait for a file that another process changes
PAUSE = 0.02  # seconds between two tries

try:
    import fcntl
except ImportError:  # Windows
    import msvcrt

    def _try_lock(number: int) -> bool:
        """Lock an open file for this descriptor, which closing it undoes; return whether nobody else holds it."""
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
        except OSError:
            return False
        return True
else:

    def _try_lock(number: int) -> bool:
        """Lock an open file for this descriptor, which closing it undoes; return whether nobody else holds it."""
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def write_whole(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Let `write` fill a scratch file next to `path`, then put it in place of `path`.

    The scratch file has a name that nobody else has, and its content is on the disk before it takes the place of
    `path`. If `write` fails, the scratch file is removed and `path` stays as it was; what a killed process left behind
    is removed by the next one that writes to `path`. A link stays a link, a file keeps its permissions, and what is
    no file (a pipe, a device) is written to as it is.
    """
    path = real_path(path)
    try:
        is_folder = path.is_dir()
    except OSError as error:  # a name that is too long
        raise OutputPathError(f"cannot write {spelled(str(path))}: {error.strerror or error}.") from error
    if is_folder:
        raise OutputPathError(f"cannot write {path}: it is a folder; name a file inside it")
    if not path.parent.is_dir():
        raise OutputPathError(f"cannot write {path}: the folder {path.parent} does not exist; create it first")
    is_plain = path.is_file() or not path.exists()
    place = path.parent if is_plain else Path(tempfile.gettempdir())
    try:
        with _scratch(place, path.name) as scratch:
            write(scratch)
            if not is_plain:
                path.write_bytes(scratch.read_bytes())
                return
            if path.exists():
                os.chmod(scratch, stat.S_IMODE(path.stat().st_mode))
            _flush(scratch)
            os.replace(scratch, path)
            _flush(path.parent)
    except BrokenPipeError:  # a pipe whose reader has gone
        raise
    except OSError as error:
        raise OutputPathError(f"cannot write {path}: {error.strerror or error}.") from error


def real_path(path: str | os.PathLike[str]) -> Path:
    """Return the file behind links; raise `OutputPathError` where no file can have such a name."""
    try:
        return Path(os.path.realpath(path))
    except (TypeError, ValueError, OSError) as error:  # a number, a NUL byte, links in a circle
        raise OutputPathError(f"cannot write {path!r}: {error}; name a file.") from error


@contextlib.contextmanager
def _scratch(place: Path, name: str) -> Iterator[Path]:
    """Give a new file of a name that no other has, held as long as it is used, and removed unless it was moved."""
    _remove_stale(place, name)
    scratch = place / f"{_scratch_start(name)}{token_hex(8)}{SCRATCH}"
    number = os.open(scratch, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0), 0o666)
    try:
        if os.name == "nt":  # where an open file can be neither moved nor removed
            os.close(number)
        else:
            with contextlib.suppress(OSError):  # file systems without locks
                _try_lock(number)
        yield scratch
    finally:
        if os.name != "nt":
            os.close(number)
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)


def _scratch_start(name: str) -> str:
    """Return how scratch files of a file begin; file systems take names of 255 bytes."""
    return "." + name.encode("utf-8", "surrogateescape")[:200].decode("utf-8", "ignore") + "."


def _remove_stale(place: Path, name: str) -> None:
    """Remove scratch files of a file that no process holds any more."""
    start = _scratch_start(name)
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(start) and entry.name.endswith(SCRATCH):
                with contextlib.suppress(OSError):
                    _remove_if_stale(entry)


def _remove_if_stale(entry: os.DirEntry[str]) -> None:
    if time.time() - entry.stat(follow_symlinks=False).st_mtime < STALE or not entry.is_file(follow_symlinks=False):
        return
    number = os.open(entry.path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        is_free = os.name == "nt" or _try_lock(number)
    finally:
        os.close(number)
    if is_free:
        os.unlink(entry.path)


def _flush(path: Path) -> None:
    """Wait until the disk has a file, or a folder's list of files where the system can open one."""
    if path.is_dir() and os.name == "nt":
        return
    number = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(number)
    except OSError:
        if not path.is_dir():  # some file systems have no such thing for folders
            raise
    finally:
        os.close(number)


@contextlib.contextmanager
def locked(
    path: str | os.PathLike[str], wait: float = WAIT, waiting: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Let one process, or thread, at a time change a file; wait for the others, then raise `LockedFileError`.

    The lock is a file beside it, which goes with the one who holds it; a killed process holds none.

    Parameters
    ----------
    path : path
        Need not exist.
    wait : float
        Seconds to wait for another holder.
    waiting : callable
        Called once if there is one.
    """
    path = real_path(path)
    lock = path.with_name(f".{path.name}{LOCK}")
    end, reported = time.monotonic() + wait, False
    while (number := _acquired(lock)) is None:
        if time.monotonic() > end:
            raise LockedFileError(
                f"{path} is being changed by another process, which did not finish within {wait:g} s; wait for it, "
                "or stop it and try again.",
                path=str(path),
                wait=wait,
            )
        if not reported:
            reported = True
            waiting()
        time.sleep(PAUSE)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # while it is held: another that waits for this very file looks again
            lock.unlink()
        os.close(number)


def _acquired(lock: Path) -> int | None:
    """Return the descriptor of a lock if it is ours now."""
    try:
        number = os.open(lock, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except PermissionError as error:
        if os.name == "nt":  # a lock that is just being removed
            return None
        raise OutputPathError(f"cannot lock {lock}: {error.strerror or error}.") from error
    except OSError as error:
        raise OutputPathError(f"cannot lock {lock}: {error.strerror or error}.") from error
    try:
        if _try_lock(number) and _is_same(number, lock):
            return number
    except OSError as error:
        os.close(number)
        raise OutputPathError(f"cannot lock {lock}: {error.strerror or error}; use another file system.") from error
    os.close(number)
    return None


def _is_same(number: int, path: Path) -> bool:
    """Return whether an open file still is the one at a path: the one who held it before may have removed it."""
    try:
        return os.path.samestat(os.fstat(number), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False
