"""How many comparisons a metric needs: the first table of docs/how_many.md.

300 points with 8 or 32 features, of which half matter; simulated answers, all right or 15 % wrong;
``share`` of 5000 unseen comparisons that hold under ``MDaML()``. Five draws of everything.

``python experiments/how_many.py run`` appends to results/how_many.jsonl and goes on where it was
interrupted; ``python experiments/how_many.py report`` prints the table.
"""

import argparse
import itertools
from pathlib import Path

import numpy as np
from _record import resume, table, timed_fit

from mdaml import MDaML
from mdaml.datasets import make_triplets
from mdaml.experiments.records import read_records

RECORDS = Path(__file__).resolve().parents[1] / "results" / "how_many.jsonl"
ANSWERS = (50, 100, 200, 400, 800, 1600, 3200, 6400)
N_FEATURES, WRONG, SEEDS = (8, 32), (0.0, 0.15), range(5)


def all_jobs():
    """Yield what is to be fitted."""
    for d, wrong, n, seed in itertools.product(N_FEATURES, WRONG, ANSWERS, SEEDS):
        yield {"n_features": d, "wrong": wrong, "n_answers": n, "seed": seed}


def do_job(n_features, wrong, n_answers, seed):
    """Return the share of unseen comparisons that hold."""
    X = np.random.default_rng(seed).normal(size=(300, n_features))
    asked = {"components": np.eye(n_features)[: n_features // 2]}
    supervision, _ = make_triplets(X, n_triplets=n_answers, wrong=wrong, random_state=seed, **asked)
    unseen, _ = make_triplets(X, n_triplets=5000, random_state=seed + 1000, **asked)
    model, _ = timed_fit(MDaML(), X, triplets=supervision)
    return {"share": float(model.score_triplets(X, unseen))}


def report(records):
    """Return the lines of the table: a row for each number of features and share of wrong ones."""
    rows = []
    for d, wrong in itertools.product(N_FEATURES, WRONG):
        own = [r for r in records if (r["n_features"], r["wrong"]) == (d, wrong)]
        shares = [[r["share"] for r in own if r["n_answers"] == n] for n in ANSWERS]
        parameters = f" ({d * (d + 1) // 2} parameters)"
        name = f"{d} features" + (f", {100 * wrong:.0f} % wrong" if wrong else parameters)
        rows.append([name, *(f"{np.mean(draws):.2f}" for draws in shares)])
    return table(["answers", *map(str, ANSWERS)], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    print(*report(read_records(RECORDS)), sep="\n")
