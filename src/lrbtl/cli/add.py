"""The command `lrbtl add`: battles of new files go into a state, those of files that went in before do not."""

from __future__ import annotations

import hashlib
import io
import sys
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from lrbtl.boards.board import count_of
from lrbtl.cli.commands import columns_of, read, say
from lrbtl.data.frames import STANDARD_INPUT
from lrbtl.data.logs import list_files
from lrbtl.data.state import Source, read_state, write_state
from lrbtl.data.text import named_errors
from lrbtl.errors import RepeatedFileError
from lrbtl.tables import check_target


class HashedStream(io.RawIOBase):
    """A stream that knows the digest of the bytes that were read from it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream, self.hash = stream, hashlib.sha256()

    def readable(self) -> bool:
        """Return that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.hash.update(data)
        return len(data)


def run_add(options: Namespace) -> None:
    """Add the battles of files to a state, which is made where there is none; all of them or none."""
    state = check_target(options.state, (".lrbtl",))
    columns = columns_of(options)
    battles, sources = read_state(state) if state.exists() else (None, [])
    if battles is not None and columns.contexts is None:
        columns = replace(columns, contexts=battles.mode_names)
    known = {source.digest: source.name for source in sources}
    n_before = len(sources)
    for given in options.files:
        is_one = given == STANDARD_INPUT or Path(given).is_file()
        for file in [given] if given == STANDARD_INPUT else list_files(given):
            digest, more = "", None
            if file == STANDARD_INPUT:
                stream = HashedStream(sys.stdin.buffer)
                more = read(options, stream, columns)
                digest = stream.hash.hexdigest()
            else:
                digest = file_digest(file)
            if digest in known and not options.again:
                if is_one:
                    raise RepeatedFileError(
                        f"{file} went into {state} before, as {known[digest]}: nothing was added. "
                        "Give --again to count its battles once more."
                    )
                say(f"{file}: went in before, left out")
                continue
            more = read(options, file, columns) if more is None else more
            known[digest] = str(file)
            sources.append(Source(str(file), digest, more.n_battles))
            battles = more if battles is None else battles + more
            say(f"{file}: {more.n_battles:,} battles")
    if battles is not None and len(sources) > n_before:
        write_state(state, battles, sources)
        say(f"{state} holds {battles.n_battles:,} battles of {count_of(len(sources), 'file')}")


def file_digest(path: Path) -> str:
    """Return the SHA-256 of the bytes of a file."""
    with named_errors(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
