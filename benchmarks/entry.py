"""Coverage of entry-wise intervals beside the default's: specialists, disliked families, heavy tails, newcomers.

Specialists are one logit better in one category of their own. A family of three models is .8 logits worse in the one
category that a machine judge decides. Heavy tails: deviations of Student's t with 2.5 degrees. Newcomers have 15% of
the votes of others. `python benchmarks/entry.py [--logs 200] [--quick]`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

import lrbtl
from replications import keep_results, known_results

MODELS, CONTEXTS, VOTES = 20, 6, 6000
DESIGNS = ("specialists", "disliked family", "heavy tails", "newcomers")


def one_log(design: str, seed: int) -> dict[str, Any]:
    """Return, of the entries that the design is about, and of all, which intervals cover, and widths."""
    rng = np.random.default_rng([4, seed, DESIGNS.index(design)])
    truth = 0.6 * rng.normal(size=(MODELS, 1)) + 0.08 * rng.normal(size=(MODELS, CONTEXTS))
    truth = truth + rng.normal(size=(MODELS, 2)) @ (0.3 * rng.normal(size=(2, CONTEXTS)))
    marked = np.zeros(truth.shape, dtype=bool)
    if design == "specialists":
        marked[[0, 1, 2], [0, 1, 2]] = True
        truth[marked] += 1.0
    if design == "disliked family":
        marked[:3, 0] = True
        truth[marked] -= 0.8
    if design == "heavy tails":
        truth += 0.1 * rng.standard_t(2.5, size=truth.shape)
        marked[:] = True
    u, a = rng.integers(0, CONTEXTS, VOTES), rng.integers(0, MODELS, VOTES)
    b = (a + rng.integers(1, MODELS, VOTES)) % MODELS
    if design == "newcomers":
        marked[:2] = True
        kept = ~((np.minimum(a, b) < 2) & (rng.random(VOTES) < 0.85))
        u, a, b = u[kept], a[kept], b[kept]
    y = (rng.random(a.size) < 1 / (1 + np.exp(truth[b, u] - truth[a, u]))).astype(float)
    log = lrbtl.Battles.from_arrays(a, b, y, u)
    est = lrbtl.infer(log, [lrbtl.score(i, k) for i in range(MODELS) for k in range(CONTEXTS)])
    aim, at = (truth - truth.mean(axis=0)).ravel(), marked.ravel()
    own = est._own
    assert own is not None
    ends = {"default": est.conf_int(), "entry": est.conf_int(kind="entry")}
    ends["own votes"] = np.column_stack([own.value - 1.96 * own.se, own.value + 1.96 * own.se])
    found: dict[str, Any] = {}
    for kind, (low, high) in ((kind, x.T) for kind, x in ends.items()):
        inside = (low <= aim) & (aim <= high)
        ratio = (high - low) / (ends["own votes"][:, 1] - ends["own votes"][:, 0])
        found[kind] = [
            int(inside[at].sum()),
            int(at.sum()),
            float(inside.mean()),
            float(ratio[np.isfinite(ratio)].mean()),
        ]
    return found


def main() -> None:
    """Run all designs that have not been run, and keep the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--quick", action="store_true", help="25 logs of each design")
    arguments = parser.parse_args()
    logs = 25 if arguments.quick else arguments.logs
    done: dict[str, Any] = known_results("entry")
    warnings.simplefilter("ignore", lrbtl.errors.LrbtlWarning)
    for design in DESIGNS:
        if done.get(design, {}).get("logs", 0) >= logs:
            continue
        began = time.time()
        found = [one_log(design, seed) for seed in range(logs)]
        row: dict[str, Any] = {"logs": logs, "seconds": round(time.time() - began)}
        for kind in found[0]:
            hit, n, overall, ratio = (np.array([x[kind][k] for x in found], dtype=float) for k in range(4))
            each = hit / n
            row[kind] = {
                "marked": float(hit.sum() / n.sum()),
                "error": float(each.std(ddof=1) / np.sqrt(logs)),
                "all": float(overall.mean()),
                "width": float(ratio.mean()),
            }
        done[design] = row
        lines = ["# Coverage of entries, nominal 95%; widths over those of own votes alone", ""]
        lines += ["| design | logs | default: these entries | all | width | entry: these | all | width | own votes |"]
        lines += ["|" + "---|" * 9]
        for name, each_row in done.items():
            cells = [f"{each_row['logs']}"]
            for kind in ("default", "entry"):
                part = each_row[kind]
                cells += [f"{part['marked']:.3f} ± {part['error']:.3f}", f"{part['all']:.3f}", f"{part['width']:.2f}"]
            lines.append(f"| {name} | {' | '.join(cells)} | {each_row['own votes']['marked']:.3f} |")
        keep_results("entry", done, "\n".join(lines) + "\n")
        print(design, row, flush=True)


if __name__ == "__main__":
    main()
