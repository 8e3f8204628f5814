"""Clusters and position on real logs: MT-Bench judgments against a cluster bootstrap, football's first side.

    python benchmarks/real_votes.py /path/to/data

MT-Bench: our errors by question and by judge over plain ones, and those of a bootstrap that draws whole clusters, on
the gaps between all models overall (one Bradley-Terry fit). Football: the advantage of the home side by type of
tournament, and the board with and without it.
"""

import csv
import gzip
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import lrbtl
from replications import keep_results

DRAWS = 200


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the columns of a gzipped CSV file."""
    with gzip.open(path, "rt", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {name: np.array([row[name] for row in rows], dtype=object) for name in rows[0]}


def gap_errors(frame: dict[str, Any], cluster: str | None) -> np.ndarray:
    """Return the standard errors of all gaps of one Bradley-Terry fit."""
    battles = lrbtl.Battles.from_frame(frame, cluster=cluster, outcomes={"tie (inconsistent)": 0.5})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lrbtl.infer(battles, lrbtl.all_gaps(), method="naive").se


def bootstrap_errors(frame: dict[str, Any], cluster: str, rng: np.random.Generator) -> np.ndarray:
    """Return the spread of all gaps over draws of whole clusters."""
    _, code = np.unique(frame[cluster].astype(str), return_inverse=True)
    rows = [np.flatnonzero(code == k) for k in range(code.max() + 1)]
    found = []
    for _ in range(DRAWS):
        at = np.concatenate([rows[k] for k in rng.integers(0, len(rows), len(rows))])
        battles = lrbtl.Battles.from_frame({name: column[at] for name, column in frame.items()})
        scores = lrbtl.fit_separate(battles).scores
        a, b = np.triu_indices(len(scores), 1)
        found.append(scores[a] - scores[b])
    return np.std(found, axis=0, ddof=1)


def mtbench(folder: Path) -> dict[str, Any]:
    """Return ratios of clustered to plain errors, ours and the bootstrap's, medians over gaps."""
    frame = read(folder / "mtbench_judgments.csv.gz")
    names = [name for name in ("question_id", "question", "judge", "worker") if name in frame]
    kept = {name: frame[name] for name in ("model_a", "model_b", "winner", *names)}
    plain, rng, out = gap_errors(kept, None), np.random.default_rng(0), {}
    for name in names:
        ours, drawn = gap_errors(kept, name), bootstrap_errors(kept, name, rng)
        out[name] = {
            "clusters": len(np.unique(kept[name].astype(str))),
            "ours over plain": float(np.median(ours / plain)),
            "bootstrap over plain": float(np.median(drawn / plain)),
            "ours over bootstrap": [float(x) for x in np.quantile(ours / drawn, [0.1, 0.5, 0.9])],
        }
    return out


def football(folder: Path) -> dict[str, Any]:
    """Return the home side's advantage by type of tournament, and the top of the board with and without it."""
    frame = read(folder / "football_intl_1990_2026.csv.gz")
    battles = lrbtl.Battles.from_frame(frame, contexts="tournament_type", position=True)
    decided = frame["winner"] != "tie"
    out: dict[str, Any] = {"home share of decided games": float(np.mean(frame["winner"][decided] == "model_a"))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        effects = lrbtl.analyse(battles, effects="by_context").effects()
        shared, without = lrbtl.leaderboard(battles), lrbtl.leaderboard(battles, control=[])
    out["by type"] = effects.sentences()
    out["coefficients"] = effects.to_dict()
    assert isinstance(shared.effects, type(effects))
    out["shared"] = shared.effects.sentences()
    place = {model: k + 1 for k, model in enumerate(without.models)}
    out["top ten, with place without position"] = [[str(m), place[m]] for m in shared.models[:10]]
    ours = {model: score for model, score in zip(without.models, without.score, strict=True)}
    moved = np.array([score - ours[m] for m, score in zip(shared.models, shared.score, strict=True)])
    out["largest change of score, Elo"] = float(np.nanmax(np.abs(moved)))
    return out


def main() -> None:
    """Write the results."""
    folder = Path(sys.argv[1])
    found = {"mtbench": mtbench(folder), "football": football(folder)}
    lines = [
        "# Clusters and position on real logs",
        "",
        "| MT-Bench clusters | number | ours / plain | bootstrap / plain |",
    ]
    lines.append("|---|---|---|---|")
    for name, row in found["mtbench"].items():
        ratios = f"{row['ours over plain']:.2f} | {row['bootstrap over plain']:.2f}"
        lines.append(f"| {name} | {row['clusters']} | {ratios} |")
    share = found["football"]["home share of decided games"]
    lines += ["", f"Football: the home side won {share:.1%} of decided games. By type of tournament:", ""]
    lines += [f"- {text}" for text in found["football"]["by type"]]
    lines += [
        "",
        "All together: " + found["football"]["shared"][0],
        "",
        "Top ten with position held fixed (place without):",
    ]
    lines += [
        "",
        *(f"- {model} ({place})" for model, place in found["football"]["top ten, with place without position"]),
    ]
    keep_results("real_votes", found, "\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
