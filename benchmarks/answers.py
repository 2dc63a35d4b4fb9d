"""How long does it take to read and group a million answers of each form?

A CSV file of answers of 20 000 points is read by :func:`mdaml.constraints.read_constraints`, turned
into weighted comparisons and grouped as the solver needs them. Run: ``python benchmarks/answers.py
[--answers 1000000] [--save]``.
"""

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from mdaml.constraints import Constraints, read_constraints
from mdaml.constraints.comparisons import Comparisons
from mdaml.constraints.matching import has_triplets_only, to_comparisons

RESULTS = Path(__file__).parent / "results" / "answers.json"
N_POINTS = 20_000
HEADERS = {
    "triplets": "a,b,c",
    "choices": "a,b,c,answer",
    "odd_one_out": "item1,item2,item3,odd",
    "votes": "a,b,c,votes_b,votes_c",
    "rankings": "anchor,rank1,rank2,rank3",
    "picks": "anchor,shown,picked",
    "grades": "a,b,grade",
    "positives": "a,b",
}


def draw_lines(form: str, n: int, rng: np.random.Generator) -> list[str]:
    start = rng.integers(0, N_POINTS, n)
    steps = np.cumsum(rng.integers(1, N_POINTS // 4, (n, 4)), axis=1)
    points = np.column_stack([start, (start[:, None] + steps[:, :3]) % N_POINTS])
    a, b, c, d = (points[:, k].astype(str).astype(object) for k in range(4))
    number, other = (rng.integers(0, 8, n).astype(str).astype(object) for _ in range(2))
    who = rng.integers(0, 100, n).astype(str).astype(object)
    chosen = np.where(rng.random(n) < 0.5, b, c)
    columns = {
        "triplets": (a, b, c),
        "choices": (a, b, c, np.where(rng.random(n) < 0.05, "neither", chosen)),
        "odd_one_out": (a, b, c, chosen),
        "votes": (a, b, c, number, np.where(number == "0", "1", other)),
        "rankings": (a, b, c, d),
        "picks": (a, b + "|" + c + "|" + d, chosen),
        "grades": (a, b, number),
        "positives": (a, b),
    }[form]
    return [",".join(row) for row in zip(*columns, who, strict=True)]


def group(value: Constraints) -> Comparisons:
    supervision = to_comparisons("benchmark", value, np.random.RandomState(0))
    if has_triplets_only(supervision):
        return Comparisons.from_triplets(supervision.triplets, supervision.n_points)
    return Comparisons.from_quadruplets(
        supervision.quadruplets, supervision.weights, supervision.n_points
    )


def measure(form: str, n: int, folder: Path) -> dict[str, float]:
    path = folder / f"{form}.csv"
    lines = draw_lines(form, n, np.random.default_rng(0))
    path.write_text(f"{HEADERS[form]},who\n" + "\n".join(lines) + "\n")
    begin, cpu = time.perf_counter(), time.process_time()
    value, problems = read_constraints(path, n_points=N_POINTS, form=form)
    read = time.perf_counter()
    grouped = group(value)
    end = time.perf_counter()
    assert not problems
    return {
        "read and turned, s": round(read - begin, 2),
        "grouped, s": round(end - read, 2),
        "in all, s": round(end - begin, 2),
        "in all, s of CPU": round(time.process_time() - cpu, 2),
        "constraints": value.n_constraints,
        "distinct pairs": len(grouped.pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument("--forms", nargs="*", default=list(HEADERS))
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        measure("choices", 1000, Path(folder))  # compiles
        for form in options.forms:
            results[form] = measure(form, options.answers, Path(folder))
            print(form, results[form], flush=True)
    if options.save:
        document = {"answers": options.answers, "cores": os.cpu_count(), "forms": results}
        RESULTS.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
