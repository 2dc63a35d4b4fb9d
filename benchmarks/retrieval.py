"""Adapters of embeddings side by side: what held-out queries find, and how long a fit takes.

python benchmarks/retrieval.py                      all sets of the data folder, all methods
python benchmarks/retrieval.py cranfield banking77/5
python benchmarks/retrieval.py speed                seconds of torch and ours to equal scores
python benchmarks/retrieval.py large                10^6 documents x 768, 10^5 queries with clicks
python benchmarks/retrieval.py large --rows 100000 --features 384   a smaller trial
python benchmarks/retrieval.py large --device cuda

Sets are read from the folder MDAML_DATA: cranfield (five folds of its queries), banking77 (n
questions of each intent are documents and queries; the test questions look for those of their
intent), osr, caltech20 and pubfig (the same with pictures of scenes, things and faces) and food
(dishes that people called alike; five folds of the dishes asked about). Seconds are those of the
processor, since cores may be shared.
"""

import argparse
import json
import os
import time
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from mdaml import KISSME, LMNN
from mdaml.datasets import load_dataset
from mdaml.retrieval import QueryAdapter, retrieval_scores
from mdaml.retrieval._scores import scale_rows

BANKING = [1, 2, 5, 10, 30]
PICTURES = {"osr": [5, 20], "caltech20": [10], "pubfig": [10]}
SETS = [
    "cranfield",
    *(f"banking77/{n}" for n in BANKING),
    *(f"{name}/{n}" for name, numbers in PICTURES.items() for n in numbers),
    "food",
]
SPEED = ["cranfield", "banking77/5", "banking77/10", "osr/20", "caltech20/10"]
MEASURES = ("ndcg@10", "hit_rate@1", "mrr@10")


# Sets: lists of (queries, documents, training pairs, labels of the documents or None, test queries,
# test pairs, labels of the test queries or None).


def load_human(name):
    return np.load(Path(os.environ["MDAML_DATA"], "human", f"{name}.npz"))


def fold_queries(Q, X, relevant, n_folds=5):
    fold = np.random.default_rng(0).permutation(len(Q)) % n_folds
    return [
        (Q, X, relevant[fold[relevant[:, 0]] != f], None, Q, relevant[fold[relevant[:, 0]] == f])
        for f in range(n_folds)
    ]


def load_cranfield():
    data = load_human("cranfield")
    Q, X = (scale_rows(data[name].astype(np.float32)) for name in ("queries", "documents"))
    return fold_queries(Q, X, np.column_stack([data["relevant"], 5 - data["grade"]]))


def load_food():
    data = load_human("food_taste")
    X = scale_rows(data["X"].astype(np.float32))
    asked, query = np.unique(data["triplets"][:, 0], return_inverse=True)
    pairs = np.column_stack([query, data["triplets"][:, 1]]).astype(int)
    return fold_queries(X[asked], X, np.unique(pairs, axis=0))


def draw_classes(X, y, n, X_test=None, y_test=None):
    """Return n examples of each class as documents and queries, and the rest or a test part."""
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:n] for c in np.unique(y)])
    if X_test is None:
        rest = np.setdiff1d(np.arange(len(X)), rows)
        X_test, y_test = X[rest], y[rest]
    same = np.argwhere(y[rows][:, None] == y[rows])
    test = np.argwhere(y_test[:, None] == y[rows])
    pairs = same[same[:, 0] != same[:, 1]]
    return [(X[rows], X[rows], pairs, y[rows], X_test, test)]


def load(name):
    kind, _, n = name.partition("/")
    if kind == "banking77":
        data = load_human("banking77_minilm")
        X, X_test = (scale_rows(data[part].astype(np.float32)) for part in ("train", "test"))
        return draw_classes(X, data["train_label"], int(n), X_test, data["test_label"])
    if kind in PICTURES:
        X, y = load_dataset(kind, return_X_y=True)
        return draw_classes(scale_rows(X.astype(np.float32)), y, int(n))
    return {"cranfield": load_cranfield, "food": load_food}[kind]()


# Methods: from training data to a function that maps test queries and documents.


def cosine(*_):
    return lambda Q, X: (Q, X)


def mapped(W):
    return lambda Q, X: (Q @ W.T, X)


def adapter(Q, X, pairs, _y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that nothing beat the base is in the scores
        model = QueryAdapter(random_state=0, **settings).fit(Q, X, pairs)
    return lambda Q, X: (model.transform_queries(Q), model.transform_documents(X))


def targets(pairs, n_queries, n_documents):
    T = np.zeros((n_queries, n_documents), np.float32)
    T[pairs[:, 0], pairs[:, 1]] = 1
    return T


def bilinear(Q, X, pairs, _y, scale=20.0, ridge=1e-3):
    """Minimise cross-entropy of q'(I + D)x over all documents plus a fixed ridge, by SciPy."""
    rows, pair_rows = np.unique(pairs[:, 0], return_inverse=True)
    T = targets(np.column_stack([pair_rows, pairs[:, 1]]), len(rows), len(X))
    T /= T.sum(axis=1, keepdims=True)
    Q, d = Q[rows], X.shape[1]
    own = (Q @ X.T) > 1 - 1e-6 if len(Q) <= 5000 else None  # a question does not find itself

    def objective(flat):
        D = flat.reshape(d, d).astype(np.float32)
        S = scale * ((Q + Q @ D.T) @ X.T)
        if own is not None:
            S[own] = -1e4
        S -= S.max(axis=1, keepdims=True)
        E = np.exp(S)
        total = E.sum(axis=1, keepdims=True)
        loss = float(np.sum(T * (np.log(total) - S))) / len(Q) + 0.5 * ridge * flat @ flat
        R = (E / total - T) / len(Q)
        return loss, (scale * (R @ X).T @ Q).astype(float).ravel() + ridge * flat

    found = minimize(
        objective, np.zeros(d * d), jac=True, method="L-BFGS-B", options={"maxiter": 100}
    )
    return mapped(np.eye(d, dtype=np.float32) + found.x.reshape(d, d).astype(np.float32))


def ridge_regression(Q, X, pairs, _y, ridge=1.0):
    """Map queries to their documents by least squares, held at the identity: a closed form."""
    q, x = Q[pairs[:, 0]].astype(float), X[pairs[:, 1]].astype(float)
    A = q.T @ q + ridge * np.eye(X.shape[1])
    W = np.eye(X.shape[1]) + np.linalg.solve(A, q.T @ (x - q)).T
    return mapped(W.astype(np.float32))


def info_nce_epochs(Q, X, pairs, rate, batch=10, scale=20.0):
    """Train a linear layer as LlamaIndex does: other documents of a batch are the negatives."""
    import torch

    torch.manual_seed(0)
    q, x = (torch.as_tensor(A) for A in (Q[pairs[:, 0]], X[pairs[:, 1]]))
    layer = torch.nn.Linear(X.shape[1], X.shape[1], bias=False)
    torch.nn.init.eye_(layer.weight)
    optimizer = torch.optim.AdamW(layer.parameters(), lr=rate)
    cosine_of = torch.nn.functional.normalize
    while True:
        for rows in torch.randperm(len(q)).split(batch):
            scores = scale * cosine_of(layer(q[rows])) @ cosine_of(x[rows]).T
            loss = torch.nn.functional.cross_entropy(scores, torch.arange(len(rows)))
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
            optimizer.step()
        yield layer.weight.detach().numpy()


def info_nce(Q, X, pairs, _y, rate=2e-5, epochs=4):
    return mapped(list(islice(info_nce_epochs(Q, X, pairs, rate), epochs))[-1])


def metric_learning(Q, X, pairs, y, rate=1e-3, epochs=10, batch=64):
    """Train a linear layer for both sides with pytorch-metric-learning's NTXentLoss."""
    import torch
    from pytorch_metric_learning.losses import NTXentLoss

    torch.manual_seed(0)
    if y is None:  # a pair is a class of its own
        A = np.concatenate([Q[pairs[:, 0]], X[pairs[:, 1]]])
        labels = np.tile(np.arange(len(pairs)), 2)
        order = np.arange(len(A)).reshape(2, -1).T  # both of a pair in one batch
    else:
        A, labels, order = X, y.astype(int), np.arange(len(X))[:, None]
    A, labels, order = (torch.as_tensor(part) for part in (A, labels, order))
    layer = torch.nn.Linear(A.shape[1], A.shape[1], bias=False)
    torch.nn.init.eye_(layer.weight)
    optimizer = torch.optim.Adam(layer.parameters(), lr=rate)
    loss_function = NTXentLoss(temperature=0.05)
    for _ in range(epochs):
        for part in torch.randperm(len(order)).split(batch // order.shape[1]):
            rows = order[part].reshape(-1)
            loss = loss_function(layer(A[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    W = layer.weight.detach().numpy()
    return lambda Q, X: (Q @ W.T, X @ W.T)


def logistic(_Q, X, _pairs, y):
    """Rank documents by the probability of their label; only documents with labels are found."""
    if y is None:
        return None
    model = LogisticRegression(C=10, max_iter=300).fit(X, y)
    columns = np.searchsorted(model.classes_, y)

    def rank(Q, X):
        P = model.decision_function(Q).astype(np.float32)
        S = P[:, columns] + 1e-3 * (Q @ X.T)
        return S, np.eye(len(X), dtype=np.float32)

    return rank


def metric(make, limit=3000):
    def fit(Q, X, pairs, y):
        if y is None:
            if make is not KISSME:
                return None
            far = np.random.default_rng(0).integers(len(X), size=len(pairs))
            A = np.concatenate([Q, X])
            P = np.column_stack([pairs[:, 0], len(Q) + pairs[:, 1]])
            N = np.column_stack([pairs[:, 0], len(Q) + far])
            signs = np.repeat([1, -1], len(pairs))
            model = make().fit(A, pairs=np.concatenate([P, N]), pair_labels=signs)
        elif len(X) > limit or np.bincount(y.astype(int)).max() < 2:
            return None
        else:
            model = make().fit(X, y)
        return lambda Q, X: (model.transform(Q), model.transform(X))

    return fit


METHODS = {
    "cosine": (cosine, "cosine"),
    "QueryAdapter": (adapter, "cosine"),
    "QueryAdapter, anchor=0.03": (lambda *data: adapter(*data, anchor=0.03), "cosine"),
    "bilinear I + D, L-BFGS": (bilinear, "cosine"),
    "least squares, closed form": (ridge_regression, "cosine"),
    "InfoNCE in torch, 2e-5": (info_nce, "cosine"),
    "InfoNCE in torch, 1e-3": (lambda *data: info_nce(*data, rate=1e-3), "cosine"),
    "pytorch-metric-learning": (metric_learning, "cosine"),
    "logistic regression": (logistic, "dot"),
    "KISSME": (metric(KISSME), "euclidean"),
    "LMNN": (metric(LMNN, limit=800), "euclidean"),
}


def run(name, method):
    """Scores of every test query, and the seconds of all fits."""
    fit, similarity = METHODS[method]
    seconds, parts = 0.0, []
    for Q, X, pairs, y, Q_test, test in load(name):
        start = time.process_time()
        nothing = len(pairs) == 0 and method != "logistic regression"
        use = cosine() if nothing else fit(Q, X, pairs, y)
        seconds += time.process_time() - start
        if use is None:
            return None
        q, x = use(Q_test, X)
        found = retrieval_scores(
            (q, x), q, x, test, k=(1, 10), similarity=similarity, n_bootstrap=1
        )
        parts.append(found.per_query)
    return seconds, {m: np.concatenate([part[m] for part in parts]) for m in MEASURES}


def interval(differences, n_samples=2000):
    rng, n = np.random.default_rng(0), len(differences)
    means = [differences[rng.integers(n, size=n)].mean() for _ in range(n_samples)]
    return [float(bound) for bound in np.quantile(means, [0.025, 0.975])]


def compare(name, methods):
    results, per_query = [], {}
    for method in methods:
        outcome = run(name, method)
        if outcome is None:
            continue
        seconds, per_query[method] = outcome
        row = {"set": name, "method": method, "seconds": round(seconds, 2)}
        for m in MEASURES:
            row[m] = float(per_query[method][m].mean())
            change = per_query[method][m] - per_query["cosine"][m]
            row[f"{m} against cosine"] = interval(change)
        results.append(row)
        shown = "  ".join(
            "{} {:.4f} [{:+.3f} {:+.3f}]".format(m, row[m], *row[f"{m} against cosine"])
            for m in MEASURES
        )
        print(f"{name:13}{method:28}{seconds:8.1f} s  {shown}", flush=True)
    for m in MEASURES:
        if "QueryAdapter" in per_query:
            best = max(per_query, key=lambda method: per_query[method][m].mean())
            behind = interval(per_query[best][m] - per_query["QueryAdapter"][m])
            results.append({"set": name, "measure": m, "best": best, "ahead of ours": behind})
            print(f"{name:13}{m}: best is {best}, ahead of QueryAdapter by {behind}", flush=True)
    return results


def compare_speed(name, rates=(3e-4, 1e-3, 3e-3), epochs=12):
    """Seconds of InfoNCE in torch until its best test score, and of ours; first part of a set.

    The best rate and number of epochs are picked by the test queries, which flatters torch.
    """
    Q, X, pairs, y, Q_test, test = load(name)[0]

    def score(use):
        q, x = use(Q_test, X)
        found = retrieval_scores((q, x), q, x, test, k=10, similarity="cosine", n_bootstrap=1)
        return found.scores["ndcg@10"]

    curve = []
    for rate in rates:
        spent, start = 0.0, time.process_time()
        for W in islice(info_nce_epochs(Q, X, pairs, rate), epochs):
            spent += time.process_time() - start
            curve.append((score(mapped(W.copy())), spent, rate))
            start = time.process_time()
    best, seconds, rate = max(curve)
    row = {"set": name, "torch": best, "seconds of torch": seconds, "rate": rate}
    for label, settings in (("ours", {}), ("ours, anchor=0.01", {"anchor": 0.01})):
        start = time.process_time()
        use = adapter(Q, X, pairs, y, **settings)
        spent = time.process_time() - start
        ours = score(use)
        # Until torch has the score of ours, or its own best one if that is lower.
        until = min(s for reached, s, _ in curve if reached >= min(ours, best))
        row[label] = {"score": ours, "seconds": spent, "torch until": until}
        print(f"{name:13}{label:18} {ours:.4f} in {spent:.2f} s; torch {min(ours, best):.4f} in "
              f"{until:.2f} s: {until / spent:.1f} times", flush=True)  # fmt: skip
    return [row]


def time_large(n_documents, d, device):
    """Seconds of a fit and of scores on made-up vectors."""
    rng = np.random.default_rng(0)
    n_queries = n_documents // 10
    X = scale_rows(rng.standard_normal((n_documents, d), dtype=np.float32))
    rows = rng.integers(n_documents, size=n_queries)
    noise = 2.5 * rng.standard_normal((n_queries, d), dtype=np.float32) / d**0.5
    noise[:, : d // 4] *= 6  # directions that mean nothing
    Q = scale_rows(X[rows] + noise)
    clicks = np.column_stack([np.arange(n_queries), rows])
    few = min(10_000, n_queries // 10)  # scored, and not learned from
    model = QueryAdapter(device=device, random_state=0)
    start = time.perf_counter(), time.process_time()
    model.fit(Q, X, clicks[few:])
    fitted, processor = time.perf_counter() - start[0], time.process_time() - start[1]
    print(f"{n_documents} x {d} documents, {n_queries} queries, {device or 'NumPy'}:")
    print(f"fit {fitted:.1f} s, {processor:.1f} s of the processor, {model.n_iter_} iterations,")
    print(f"strength {model.strength_}, held out {model.held_out_}", flush=True)
    start = time.perf_counter(), time.process_time()
    found = retrieval_scores(model, Q[:few], X, clicks[:few], k=10, device=device)
    seconds = time.perf_counter() - start[0]
    print(f"scores of {few} queries, base and adapter: {seconds:.1f} s, "
          f"{time.process_time() - start[1]:.1f} s of the processor\n{found}")  # fmt: skip
    return [
        {"documents": n_documents, "queries": n_queries, "features": d, "device": device}
        | {"fit": fitted, "fit, processor": processor, "scored": few, "scores": seconds}
        | {"ndcg@10": found.scores["ndcg@10"], "base ndcg@10": found.base["ndcg@10"]}
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--methods", help="names or beginnings of names, separated by |")
    parser.add_argument("--rows", type=int, default=1_000_000, help="documents of the large fit")
    parser.add_argument("--features", type=int, default=768)
    parser.add_argument("--device", default=None)
    parser.add_argument("--out", type=Path, help="JSON file for the figures")
    given = parser.parse_args()
    if given.sets == ["large"]:
        results = time_large(given.rows, given.features, given.device)
    elif given.sets[0] == "speed":
        results = [row for name in given.sets[1:] or SPEED for row in compare_speed(name)]
    else:
        wanted = tuple(given.methods.split("|")) if given.methods else ("",)
        methods = [m for m in METHODS if m == "cosine" or m.startswith(wanted)]
        results = [row for name in given.sets for row in compare(name, methods)]
    if given.out:
        given.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
