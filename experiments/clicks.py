"""Logs of clicks: how much of what can be gained is gained from them, and when nothing is changed.

Questions of banking77 search an index of others; the ten nearest by cosine are shown and clicked as
a model of clicks says. A question is relevant for those of its intent. The adapter sees the log
alone; the score is the true nDCG@10 of 3080 new questions.

position   what is at position k is looked at with probability 1 / k
cascade    from the top; a click ends the search in half of the cases, no click in a tenth
trust      as position, and what stands high is also clicked because it stands there
popular    as position; a tenth of the index is clicked by 0.3 whatever was asked
repeated   as position; questions are asked many times, the first of them most
random     as position; two neighbours of each list change places with probability 0.5
only       clicks follow the position alone: nothing can be learned from them

Right documents are clicked with 0.8, others with a rate of stray clicks. ``gain`` is that of
``QueryAdapter()``, ``best`` that of the best fixed strength in hindsight.

``python experiments/clicks.py run`` appends to results/clicks.jsonl and goes on where it was
interrupted; ``python experiments/clicks.py report`` prints the tables of docs/retrieval.md.
"""

import argparse
import itertools
import os
import time
import warnings
from functools import lru_cache
from pathlib import Path

import numpy as np
from _record import resume, table

from mdaml.experiments.records import read_records
from mdaml.retrieval import QueryAdapter, retrieval_scores

RECORDS = Path(__file__).resolve().parents[1] / "results" / "clicks.jsonl"
STRENGTHS = (0.1, 0.03, 0.01, 0.003, 0.001)
N_SHOWN = 10
STRAY = (0.02, 0.05, 0.1)
MODELS = ("position", "cascade", "trust")


@lru_cache
def banking():
    """Return vectors of length one and intents, of the training and of the test part."""
    with np.load(Path(os.environ["MDAML_DATA"]) / "human" / "banking77_minilm.npz") as data:
        parts = [data[name].astype(np.float32) for name in ("train", "test")]
        intents = [data[f"{name}_label"] for name in ("train", "test")]
    names = np.unique(intents[0])
    return [
        (X / np.linalg.norm(X, axis=1, keepdims=True), np.searchsorted(names, y))
        for X, y in zip(parts, intents, strict=True)
    ]


def draw(n_index, n_queries, rng):
    """Return an index with ``n_index`` questions of each intent, and others as queries."""
    X, y = banking()[0]
    order = rng.permutation(len(y))
    rank = np.empty(len(y), int)
    for intent in range(y.max() + 1):
        rows = order[y[order] == intent]
        rank[rows] = np.arange(len(rows))
    index = np.flatnonzero(rank < n_index)
    asked = rng.permutation(np.flatnonzero(rank >= n_index))[:n_queries]
    return (X[asked], y[asked]), (X[index], y[index])


def show(queries, documents):
    """Return the rows of the ten nearest documents of each query."""
    return np.argsort(-(queries @ documents.T), axis=1, kind="stable")[:, :N_SHOWN]


def click(model, is_right, stray, rng):
    """Return which of the documents shown are clicked, (n_lists, n_shown)."""
    n, shown = is_right.shape
    k = np.arange(1, shown + 1)
    looked_at, liked = 1.0 / k, np.where(is_right, 0.8, stray)
    if model == "cascade":
        clicked, goes_on = np.zeros((n, shown), bool), np.ones(n, bool)
        for place in range(shown):
            clicked[:, place] = goes_on & (rng.random(n) < liked[:, place])
            goes_on &= rng.random(n) < np.where(clicked[:, place], 0.5, 0.9)
        return clicked
    if model == "trust":
        trusted = 0.25 * np.exp(-(k - 1) / 2.0)
        liked = np.where(is_right, 0.8 + 0.1 * np.exp(-(k - 1) / 2.0), np.maximum(stray, trusted))
    if model == "only":
        liked = np.full(is_right.shape, 0.4)
    return rng.random((n, shown)) < looked_at * liked


def make_log(model, stray, n_queries, queries, documents, rng):
    """Return rows (query, document, position, clicked, impression)."""
    (Q, asked), (X, intents) = queries, documents
    lists = np.arange(len(Q))
    if n_queries > len(Q) or model == "repeated":
        shares = 1.0 / (np.arange(len(Q)) + 20.0)
        lists = rng.choice(len(Q), n_queries, p=shares / shares.sum())
    shown = show(Q, X)[lists]
    if model == "random":
        swapped = rng.random(len(shown)) < 0.5
        place = rng.integers(N_SHOWN - 1, size=len(shown))[swapped]
        rows = np.flatnonzero(swapped)
        upper, lower = shown[rows, place].copy(), shown[rows, place + 1].copy()
        shown[rows, place], shown[rows, place + 1] = lower, upper
    is_right = intents[shown] == asked[lists][:, None]
    rates = np.full(shown.shape, stray)
    if model == "popular":
        rates = np.where((rng.random(len(X)) < 0.1)[shown], 0.3, stray)
    clicked = click(model, is_right, rates, rng)
    numbers = np.broadcast_to(np.arange(1, N_SHOWN + 1), shown.shape)
    return np.column_stack(
        [
            np.repeat(lists, N_SHOWN),
            shown.ravel(),
            numbers.ravel(),
            clicked.ravel(),
            np.repeat(np.arange(len(lists)), N_SHOWN),
        ]
    )


def true_ndcg(model, documents):
    """Return nDCG@10 of new questions, by their intents; None are the vectors as they are."""
    (X, intents), (Q, asked) = documents, banking()[1]
    pairs = np.argwhere(asked[:, None] == intents)
    return retrieval_scores(model, Q, X, pairs, k=10, n_bootstrap=1).scores["ndcg@10"]


def run_log(model, stray, n_queries, n_index, seed):
    """Fit the default to one log, and every strength, and score them by the truth."""
    rng = np.random.default_rng([seed, n_queries, n_index])
    queries, documents = draw(n_index, min(n_queries, 8000), rng)
    log = make_log(model, stray, n_queries, queries, documents, rng)
    start = time.perf_counter()
    chosen = fit(QueryAdapter(random_state=seed), queries, documents, log)
    record = {"strength": str(chosen.strength_), "improved": bool(chosen.improved_)}
    record["seconds"] = time.perf_counter() - start
    if model == "only":
        return record
    base = true_ndcg(None, documents)
    fixed, adapter = {}, QueryAdapter(anchor=0.1, warm_start=True, random_state=seed)
    for strength in STRENGTHS:
        fit(adapter.set_params(anchor=strength), queries, documents, log)
        fixed[str(strength)] = true_ndcg(adapter, documents) - base
    gain = true_ndcg(chosen, documents) - base
    return {**record, "base": base, "gain": gain, "best": max(fixed.values()), "fixed": fixed}


def fit(adapter, queries, documents, log):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that nothing was improved is counted
        return adapter.fit(queries[0], documents[0], clicks=log)


def jobs(n_null):
    """Return what to run: first the setting of the promise, then others, then logs of noise."""
    names = ("model", "stray", "n_queries", "n_index", "seed")
    some = [
        *(("position", stray, 8000, 20, 10) for stray in STRAY),
        *((*case, 8, 11) for case in itertools.product(MODELS, STRAY, (500, 2000))),
        *((model, 0.05, 2000, 8, 12) for model in ("popular", "random")),
        *((model, 0.05, 8000, 8, 13) for model in ("cascade", "trust", "popular")),
        ("repeated", 0.05, 50_000, 8, 14),
    ]  # fmt: skip
    null = [("only", 0.0, 500 if seed % 2 else 1500, 8, seed) for seed in range(100, 100 + n_null)]
    return [dict(zip(names, case, strict=True)) for case in [*some, *null]]


def report():
    """Print a table of gains, and how many logs of noise changed something."""
    records = read_records(RECORDS)
    head = ["model", "stray", "queries", "base", "gain", "best in hindsight", "share", "strength"]
    rows = []
    for r in records:
        if r["model"] == "only":
            continue
        share = r["gain"] / r["best"] if r["best"] > 0 else float("nan")
        cells = (f"{r['base']:.3f}", f"{r['gain']:+.3f}", f"{r['best']:+.3f}", f"{share:.2f}")
        strength = "none" if r["strength"] == "inf" else r["strength"]
        rows.append([r["model"], f"{r['stray']:.0%}", r["n_queries"], *cells, strength])
    print(*table(head, rows), sep="\n")
    null = [r for r in records if r["model"] == "only"]
    print(f"\nClicks by position alone: {sum(r['improved'] for r in null)} of {len(null)} changed.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    parser.add_argument("--null", type=int, default=100, help="logs of clicks by position alone")
    arguments = parser.parse_args()
    if arguments.what == "run":
        resume(RECORDS, jobs(arguments.null), run_log)
    report()
