"""Time and memory of reading battle logs, relative to pandas.factorize on the same rows in the same run.

python benchmarks/ingest.py --rows 5000000

Seconds are CPU seconds of all threads, because others use the machine at the same time.
"""

import argparse
import ctypes
import gc
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import lrbtl
from replications import keep_results

N_MODELS, N_CATEGORIES = 200, 10
WINNERS = np.array(["model_a", "model_b", "tie", "tie (bothbad)"], dtype=object)
LABELS = ["model_a", "model_b", "category"]


def draw_codes(n: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    a = rng.integers(0, N_MODELS, n, dtype=np.int32)
    return {
        "model_a": a,
        "model_b": (a + rng.integers(1, N_MODELS, n, dtype=np.int32)) % N_MODELS,
        "winner": rng.integers(0, 4, n, dtype=np.int32),
        "category": rng.integers(0, N_CATEGORIES, n, dtype=np.int32),
    }


def string_frame(codes: dict[str, np.ndarray]) -> pd.DataFrame:
    models = np.array([f"provider/model-{k:03d}" for k in range(N_MODELS)], dtype=object)
    categories = np.array([f"category {k}" for k in range(N_CATEGORIES)], dtype=object)
    words = {"model_a": models, "model_b": models, "winner": WINNERS, "category": categories}
    return pd.DataFrame({name: pd.Series(words[name][code], dtype=object) for name, code in codes.items()})


def seconds_of(run: Callable[[], Any]) -> float:
    gc.collect()
    begin = time.process_time()
    run()
    return time.process_time() - begin


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


def peak_extra(run: Callable[[], Any]) -> int:
    """Largest growth of resident memory during a call, in bytes, sampled every millisecond."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)  # memory that was freed before must not hide what is allocated now
    base = peak = resident()
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.001):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    run()
    done.set()
    watcher.join()
    return peak - base


def floor(frame: pd.DataFrame) -> None:
    """Three factorize calls and one bincount: the time everything is compared with."""
    (a, left), (b, right), (u, levels) = (pd.factorize(frame[name]) for name in LABELS)
    key = (u * np.int64(len(left)) + a) * np.int64(len(right)) + b
    np.bincount(key, minlength=len(levels) * len(left) * len(right))


def build_inputs(codes: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the same battles as every kind of table."""
    objects = string_frame(codes)
    strings = pl.DataFrame(
        {name: objects[name].to_numpy() for name in objects}, schema=dict.fromkeys(objects, pl.String)
    )
    coded = {**codes, "winner": np.array([1.0, 0.0, 0.5, 0.5])[codes["winner"]]}
    enums = {name: pl.Enum(strings[name].unique().sort()) for name in objects}
    return {
        "pandas object": objects,
        "pandas str": objects.astype("str"),
        "pandas category": objects.astype("category"),
        "pandas integer": pd.DataFrame(coded),
        "polars String": strings,
        "polars Categorical": strings.cast(pl.Categorical),
        "polars Enum": strings.cast(enums),
        "polars integer": pl.DataFrame(coded),
        "polars lazy": strings.lazy(),
        "arrow string": strings.to_arrow(),
        "arrow dictionary": strings.cast(pl.Categorical).to_arrow(),
        "dict of lists": {name: objects[name].tolist() for name in objects},
        "dict of unicode arrays": {name: objects[name].to_numpy().astype(str) for name in objects},
    }


def read_battles(frame: Any) -> lrbtl.Battles:
    return lrbtl.Battles.from_frame(frame, contexts="category")


def measure(inputs: dict[str, Any], repeats: int) -> dict[str, dict[str, float]]:
    """Per input: seconds, ratios to the floors run next to it, extra memory relative to the input."""
    objects, strings = inputs["pandas object"], inputs["pandas str"]
    sizes = {
        "pandas object": objects.memory_usage(index=False, deep=False).sum(),  # pointers only: the strings are shared
        "pandas str": strings.memory_usage(index=False, deep=True).sum(),
        "polars String": inputs["polars String"].estimated_size(),
    }
    print(f"{'input':<24}{'seconds':>9}{'/ str floor':>13}{'/ object floor':>16}{'extra / input memory':>22}")
    table = {}
    for name, frame in inputs.items():
        calls = (partial(read_battles, frame), partial(floor, strings), partial(floor, objects))
        extra = peak_extra(calls[0])
        times = np.array([[seconds_of(call) for call in calls] for _ in range(repeats)])
        table[name] = {
            "seconds": float(np.median(times[:, 0])),
            "ratio_str_floor": float(np.median(times[:, 0] / times[:, 1])),
            "ratio_object_floor": float(np.median(times[:, 0] / times[:, 2])),
        }
        memory = ""
        if name in sizes:
            table[name]["extra_memory_ratio"] = extra / float(sizes[name])
            memory = f"{extra / float(sizes[name]):>22.2f}"
        seconds, to_str, to_object = list(table[name].values())[:3]
        print(f"{name:<24}{seconds:>9.3f}{to_str:>13.2f}{to_object:>16.2f}{memory}")
    for kind, slow, fast in (
        ("pandas", "str", ("integer", "category")),
        ("polars", "String", ("integer", "Categorical", "Enum")),
    ):
        for name in fast:
            row = table[f"{kind} {name}"]
            row["speedup"] = table[f"{kind} {slow}"]["ratio_object_floor"] / row["ratio_object_floor"]
            print(f"{kind} {name}: {row['speedup']:.1f} times faster than {slow}")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--chunked-rows", type=int, default=100_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{options.rows:,} rows, medians of {options.repeats} runs, each next to a run of both floors")
    result: dict[str, Any] = {"rows": options.rows, "repeats": options.repeats}
    result["inputs"] = measure(build_inputs(draw_codes(options.rows, np.random.default_rng(0))), options.repeats)
    if options.chunked_rows:
        result["chunks"] = add_chunks(options.chunked_rows)
    keep_results("ingest", result)


def add_chunks(n: int, chunk: int = 4_000_000) -> dict[str, float]:
    """Seconds and peak memory of adding n battles chunk by chunk, without the drawing of the codes."""
    rng = np.random.default_rng(1)
    total: lrbtl.Battles | None = None
    seconds = 0.0

    def run() -> None:
        nonlocal total, seconds
        for _ in range(0, n, chunk):
            codes = draw_codes(chunk, rng)
            outcome = codes["winner"] % 2
            begin = time.process_time()
            more = lrbtl.Battles.from_arrays(
                codes["model_a"], codes["model_b"], outcome, codes["category"], n_models=N_MODELS, n_levels=N_CATEGORIES
            )
            total = more if total is None else total + more
            seconds += time.process_time() - begin

    extra = peak_extra(run)
    print(f"{n:,} coded battles in chunks: {seconds:.1f} s, {extra / 2**30:.2f} GiB extra with the chunk itself")
    return {"rows": n, "seconds": seconds, "extra_gib": extra / 2**30}


if __name__ == "__main__":
    main()
