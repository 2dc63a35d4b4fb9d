"""Metrics of low rank where features are many, beside one of full rank; a part of run.py."""

import time
import tracemalloc
import warnings

import numpy as np

from mdaml import MDaML
from mdaml.constraints import sample_triplets

N, RANK, PER_SAMPLE = 5000, 32, 10
CASES = [(256, None), (256, RANK), (1024, RANK), (4096, RANK)]  # features, n_components


def embeddings(n_features):
    """Ten classes that differ in 20 directions, variances that fall, and triplets.

    The last fifth of the samples and their triplets are held out.
    """
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, N + N // 5)
    Z = rng.standard_normal((len(y), n_features), np.float32)
    Z[:, 20:40] += rng.normal(size=(10, 20)).astype(np.float32)[y]
    X = Z * np.arange(1, n_features + 1, dtype=np.float32) ** -0.5
    X *= np.sqrt(X.size) / np.linalg.norm(X)  # a mean variance of one
    parts = slice(0, N), slice(N, None)
    return [
        (X[p], sample_triplets(y[p], PER_SAMPLE, PER_SAMPLE, pairing="zip", random_state=0))
        for p in parts
    ]


def low_rank():
    print(f"\nA metric of rank {RANK}: N = {N}, {N * PER_SAMPLE} triplets, 10 rounds of 5 steps\n")
    rows = []
    for n_features, rank in CASES:
        (X, triplets), unseen = embeddings(n_features)
        model = MDaML(3, n_components=rank, max_iter=10, tol=0, random_state=0)
        with warnings.catch_warnings():  # one round is too few, but compiles
            warnings.simplefilter("ignore")
            MDaML(3, n_components=rank and 8, max_iter=1).fit(X[:, :64], triplets=triplets)
        times = []
        for _ in range(3):
            start = time.perf_counter(), time.process_time()
            model.fit(X, triplets=triplets)
            times.append([time.perf_counter() - start[0], time.process_time() - start[1]])
        seconds, processor_seconds = np.min(times, axis=0)
        tracemalloc.start()
        MDaML(3, n_components=rank, max_iter=1, random_state=0).fit(X, triplets=triplets)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        row = {
            "n_features": n_features,
            "n_components": rank,
            "seconds": seconds,
            "processor_seconds": processor_seconds,
            "peak_mb": peak / 2**20,
            "input_mb": (X.nbytes + triplets.nbytes) / 2**20,
            "objective": model.history_[-1],
            "unseen": model.score_triplets(*unseen),
        }
        rows.append(row)
        print(
            f"d={n_features:5d} {'rank ' + str(rank) if rank else 'full':8s} {seconds:6.2f} s "
            f"(processor {processor_seconds:6.2f} s), peak {row['peak_mb']:5.0f} MB beside "
            f"{row['input_mb']:4.0f} MB, unseen triplets {row['unseen']:.3f}, "
            f"objective {row['objective']:.4g}",
            flush=True,
        )
    values = [(row["n_features"], row["seconds"]) for row in rows if row["n_components"]]
    slope = float(np.polyfit(*np.log(np.array(values)).T, 1)[0])
    print(f"growth with the features: exponent {slope:.2f}")
    return {"rows": rows, "exponent": slope}
