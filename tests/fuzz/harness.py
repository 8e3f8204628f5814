"""Random calls that a user could make by mistake or by malice, and what must never come of them.

Every call either returns a result or raises a class of `lrbtl.errors`. A leak is anything else: another exception, a
warning that is not ours, an interval without width, or with an end that is no number and no reason. A case is an area
and a seed, and can be run again by these two.

    python tests/fuzz/harness.py --cases 100000 [--area files] [--seed 0] [--minutes 60] [--record FILE]

`--record` adds a line of JSON per area to a file; the last campaign is in `tests/fuzz/campaign.jsonl`.
"""

import argparse
import contextlib
import faulthandler
import io
import json
import random
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script; pytest has the folder on its path

from fuzz import commands, decisions, files, ingestion, metamorphic, options, pipeline, surface
from lrbtl.errors import LrbtlError, LrbtlWarning

AREAS: dict[str, Callable[[random.Random, Path], object]] = {
    "ingestion": ingestion.run_case,
    "pipeline": pipeline.run_case,
    "options": options.run_case,
    "files": files.run_case,
    "decisions": decisions.run_case,
    "surface": surface.run_case,
    "commands": commands.run_case,
    "metamorphic": metamorphic.run_case,
}
REPORTED_EVERY = 1000  # cases between two reports of progress


@dataclass(frozen=True)
class Leak:
    """What came of a case that must not come of any."""

    area: str
    seed: int
    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.area} {self.seed}: {self.kind} at {self.where}: {self.text}"


def find_leak(area: str, seed: int, folder: Path) -> Leak | None:
    """Run a case; return what leaked, or None."""
    rng = random.Random(f"{area} {seed}")
    quiet = io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", LrbtlWarning)
            AREAS[area](rng, folder)
    except surface.Unprepared as error:
        raise RuntimeError("the examples of the fuzzer cannot be made") from error
    except LrbtlError as error:
        if not str(error).strip():
            return Leak(area, seed, type(error).__name__, "", "an error without a message")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # everything else is what we look for, a panic of compiled code too
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "lrbtl" in frame.filename]
        where = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "harness"
        return Leak(area, seed, type(error).__name__, where, str(error)[:200])
    return None


def find_leaks(area: str, seeds: Iterator[int] | range, minutes: float = 1e9) -> tuple[int, list[Leak]]:
    """Run cases until they or the time are used up; return their number and the leaks."""
    end, found, n = time.monotonic() + 60 * minutes, [], 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in seeds:
            if time.monotonic() > end:
                break
            if n and n % REPORTED_EVERY == 0:  # where a case ends the process, these lines name the ones to look at
                print(f"{area}: {n:,} cases, up to seed {seed - 1}", file=sys.stderr, flush=True)
            try:
                leak = find_leak(area, seed, Path(folder))
            except KeyboardInterrupt:  # the campaign ends here, and is recorded so far
                break
            n += 1
            if leak is not None:
                found.append(leak)
                print(leak, file=sys.stderr, flush=True)
    return n, found


def commit() -> str:
    """Return the commit that cases ran on."""
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent
    )
    return found.stdout.strip()


def main(argv: list[str] | None = None) -> int:
    """Run a campaign, print each kind of leak once, and return 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000, help="in all areas together")
    parser.add_argument("--area", choices=tuple(AREAS), action="append")
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--record", type=Path, help="file that gets a line of JSON per area")
    chosen: Any = parser.parse_args(argv)
    areas = chosen.area or list(AREAS)
    faulthandler.enable()
    n_leaks, tried = 0, commit()
    for area in areas:
        seeds = range(chosen.seed, chosen.seed + chosen.cases // len(areas))
        n, leaks = find_leaks(area, seeds, chosen.minutes / len(areas))
        kinds = Counter((leak.kind, leak.where) for leak in leaks)
        print(f"{area}: {n:,} cases, {len(leaks):,} leaks of {len(kinds)} kinds", flush=True)
        for (kind, where), count in kinds.most_common():
            example = next(leak for leak in leaks if (leak.kind, leak.where) == (kind, where))
            print(f"  {count:6,} {kind} at {where}; seed {example.seed}: {example.text}", flush=True)
        n_leaks += len(leaks)
        if chosen.record is not None:
            row = {"commit": tried, "area": area, "seed": chosen.seed, "cases": n, "leaks": list(map(str, leaks))}
            with chosen.record.open("a") as file:
                file.write(json.dumps(row) + "\n")
    return int(n_leaks > 0)


if __name__ == "__main__":
    sys.exit(main())
