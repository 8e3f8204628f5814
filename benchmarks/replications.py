"""Results of simulations, and replications kept as they finish: a stopped run goes on, with the same code."""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import lrbtl

RESULTS = Path(__file__).parent / "results"
Replication = dict[str, Any]


def code_version() -> str:
    """Return a fingerprint of the package, of the running script and of what it imports from its folder."""
    files = [*sorted(Path(lrbtl.__file__).parent.glob("**/*.py")), *sorted(script_files())]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def script_files() -> set[Path]:
    """Return the running script and the files beside it that are imported."""
    files = {Path(sys.argv[0]).resolve()}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if path is not None and Path(path).resolve().parent == Path(__file__).resolve().parent:
            files.add(Path(path).resolve())
    return files


def known_results(name: str) -> Any:
    """Return the results that a script kept, nothing where there are none: parts that are not run keep theirs."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def keep_results(name: str, rows: Any, table: str | None = None) -> None:
    """Write results as JSON, and beside it as a table in Markdown where there is one."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    if table is not None:
        (RESULTS / f"{name}.md").write_text(table, encoding="utf-8")


def replicate_all(
    name: str,
    replicate: Callable[[str, int, Replication], Replication],
    reps: int,
    jobs: int,
    *,
    needed: Iterable[str],
) -> list[Replication]:
    """Return replicate(name, seed, what is known of it) for each seed below `reps`.

    Those are not run again whose log holds all that is needed, from the same code.
    """
    code = code_version()
    log_path = RESULTS / "replications" / f"{name.replace(' ', '-')}.jsonl"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    lines = log_path.read_text().splitlines() if log_path.exists() else []
    known = {found["seed"]: found for found in map(json.loads, lines) if found.pop("code", None) == code}
    missing = [seed for seed in range(reps) if not set(needed) <= known.get(seed, {}).keys()]
    start = time.time()
    with ProcessPoolExecutor(jobs) as pool, log_path.open("a") as log:
        futures = [pool.submit(replicate, name, seed, known.get(seed, {})) for seed in missing]
        for done, future in enumerate(as_completed(futures), 1):
            found = future.result()
            known[found["seed"]] = found
            log.write(json.dumps({**found, "code": code}) + "\n")
            log.flush()
            left = len(missing) - done
            minutes = (time.time() - start) / done * left / 60
            if sys.stdout.isatty() or left % 25 == 0:
                end = "" if sys.stdout.isatty() else "\n"
                print(f"\r{name}: {reps - left}/{reps}, {minutes:.0f} min left  ", end=end, flush=True)
    print()
    return [known[seed] for seed in range(reps)]
