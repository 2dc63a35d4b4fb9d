"""Answers of people and embeddings of texts: what is learned from them, on items not seen before.

material    which of two materials looks more like a third; weighted by votes
food        which of two dishes tastes more like a third
zappos      which of two shoes is more like a third
faces36     which of two faces is more like a third; items seen, answers not
banking77   77 intents of bank customers, ten labelled texts each; 3-NN on the test part
cranfield   which abstracts answer a question; queries held out, ranked against all abstracts

Of material, food and zappos 30 % of the items are held out: comparisons wholly among the others are
learned from, those wholly among the held-out ones are scored, five times over.

The data are not part of the repository: the environment variable MDAML_DATA names a folder that
holds them in ``human/*.npz``. A set whose file is not there is left out.

``MDAML_DATA=... python experiments/people.py run`` appends to results/people.jsonl and goes on
where it was interrupted; ``python experiments/people.py report`` prints the tables of
docs/supervision.md.
"""

import argparse
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from _record import resume, table, timed_fit
from kinds import chosen, nearest_three, share_that_holds
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from study import HERE, seed_of

from mdaml import GMML, KISSME, LMNN, PRESETS, Euclidean, MDaML, MDaMLCV
from mdaml.constraints import neighbor_triplets
from mdaml.experiments.records import read_records

RECORDS = HERE.parent / "results" / "people.jsonl"
HELD_OUT = 0.3
PER_CLASS = 10
FILES = {
    "material": "material.npz",
    "food": "food_taste.npz",
    "zappos": "zappos85.npz",
    "faces36": "faces36.npz",
    "banking77": "banking77_minilm.npz",
    "cranfield": "cranfield.npz",
}
N_SPLITS = {"material": 5, "food": 5, "zappos": 5, "faces36": 1, "banking77": 3, "cranfield": 5}
SCORES = {
    **dict.fromkeys(("material", "food", "zappos", "faces36"), ("share",)),
    "banking77": ("accuracy", "weighted"),
    "cranfield": ("ndcg", "mrr", "recall", "share"),
}
CEILING, LOGISTIC, START = "ceiling of the votes", "logistic regression", "Euclid"


class NearIdentity:
    """Logistic loss of the triplets plus ``λ |M - I|²``, for comparison with an anchor.

    M is symmetric; its negative part is cut off at the end. λ is the best of five by the share
    of comparisons of held-out points that hold; among equals the one that learns less.
    """

    strengths = (0.1, 0.01, 1e-3, 1e-4, 1e-5)  # from learning little to learning nearly all

    def fit(self, X, y=None, *, triplets=None, constraint_weight=None):
        if triplets is None:
            triplets = neighbor_triplets(X, y, 5, 5)
        weights = np.ones(len(triplets)) if constraint_weight is None else constraint_weight
        X = X - X.mean(axis=0)
        # The mean squared distance of two rows becomes 10, so that λ means the same on every set.
        X = X * np.sqrt(5.0 / np.mean(np.sum(X**2, axis=1)))
        points = np.unique(triplets[:, 0])
        aside = np.random.default_rng(0).permutation(points)[: max(len(points) // 4, 1)]
        learned, scored = ~np.isin(triplets, aside).any(axis=1), np.isin(triplets[:, 0], aside)
        M, shares = np.eye(X.shape[1]), []
        for strength in self.strengths:
            M = _near_identity(X, triplets[learned], weights[learned], strength, M)
            shares.append(share_that_holds(X @ _factor(M), triplets[scored], weights[scored]))
        self.strength_ = self.strengths[int(np.argmax(shares))]
        M = _near_identity(X, triplets, weights, self.strength_, np.eye(X.shape[1]))
        self.factor_ = _factor(M)
        return self

    def transform(self, X):
        return X @ self.factor_


def _near_identity(X, triplets, weights, strength, start):
    """Return the best symmetric M, by L-BFGS."""
    (i, j, r), n, d = triplets.T, len(X), X.shape[1]
    weights = weights / weights.sum()

    def value_and_slope(flat):
        M = flat.reshape(d, d)
        Y = X @ M
        own = np.einsum("nd,nd->n", Y, X)
        products = [np.einsum("td,td->t", Y[i], X[others]) for others in (j, r)]
        margin = own[r] - own[j] + 2 * (products[0] - products[1])
        change = M - np.eye(d)
        slope = -weights * expit(-margin)
        rows, columns = np.concatenate([i, i]), np.concatenate([j, r])
        cross = csr_array((np.concatenate([slope, -slope]), (rows, columns)), shape=(n, n))
        here = np.bincount(r, slope, n) - np.bincount(j, slope, n)
        half = X.T @ (cross @ X)
        value = weights @ np.logaddexp(0.0, -margin) + strength * np.sum(change**2)
        return value, ((X.T * here) @ X + half + half.T + 2 * strength * change).ravel()

    options = {"maxiter": 60}
    found = minimize(value_and_slope, start.ravel(), jac=True, method="L-BFGS-B", options=options)
    M = found.x.reshape(d, d)
    return (M + M.T) / 2


def _factor(M):
    """Return F with ``F F^T`` the part of M that is not negative."""
    values, vectors = np.linalg.eigh(M)
    return vectors * np.sqrt(np.maximum(values, 0.0))


METHODS = {
    START: lambda _: Euclidean(),
    "MDaML()": lambda seed: MDaML(random_state=seed),
    'MDaML(goal="neighbors")': lambda seed: MDaML(goal="neighbors", random_state=seed),
    "MDaMLCV()": lambda seed: MDaMLCV(random_state=seed),
    "Eq. (7), K=1": lambda seed: MDaML(
        1, goal=replace(PRESETS["paper"], init_metric="auto"), random_state=seed
    ),
    "I + Δ": lambda _: NearIdentity(),
    "KISSME()": lambda _: KISSME(),
    "GMML()": lambda _: GMML(),
}
OURS = ["MDaML()", 'MDaML(goal="neighbors")', "MDaMLCV()"]
OF_LABELS = {
    "LMNN()": lambda _: LMNN(),
    # Rows of unit length want a weaker penalty than its default.
    LOGISTIC: lambda _: GridSearchCV(LogisticRegression(max_iter=1000), {"C": [1, 10, 100]}),
}


def methods_of(dataset):
    """Return the names of the methods that a set is for."""
    more = {"banking77": OF_LABELS, "material": [CEILING]}
    return [*METHODS, *more.get(dataset, ())]


def data_file(dataset):
    """Return the path of a set, or None where MDAML_DATA does not name a folder that has it."""
    folder = os.environ.get("MDAML_DATA")
    path = Path(folder or ".", "human", FILES[dataset])
    return path if folder and path.exists() else None


@lru_cache(maxsize=1)
def load(dataset):
    with np.load(data_file(dataset)) as file:
        arrays = {name: file[name] for name in file.files}
    # Half precision and small integers save space in the files and would overflow here.
    wide = {"f": float, "i": np.int64}
    return {name: a.astype(wide.get(a.dtype.kind, a.dtype)) for name, a in arrays.items()}


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def unseen_items(X, triplets, weights, rng, n_components=None):
    """Return comparisons among some items, to learn from, and among the others, to score.

    Principal components are those of the items learned from.
    """
    order = rng.permutation(len(X))
    test, train = np.split(order, [int(HELD_OUT * len(X))])
    place, is_test = np.empty(len(X), int), np.zeros(len(X), bool)
    place[test], place[train] = np.arange(len(test)), np.arange(len(train))
    is_test[test] = True
    learned, scored = ~is_test[triplets].any(axis=1), is_test[triplets].all(axis=1)
    X_train, X_test = X[train], X[test]
    if n_components is not None:
        pca = PCA(n_components, random_state=0).fit(X_train)
        X_train, X_test = pca.transform(X_train), pca.transform(X_test)
    return SimpleNamespace(
        train=train,
        test=test,
        X=X_train,
        triplets=place[triplets[learned]],
        weights=None if weights is None else weights[learned],
        X_test=X_test,
        unseen=place[triplets[scored]],
        votes=None if weights is None else weights[scored],
    )


def of_votes(answers):
    """Return both directions of answers with their votes; directions without votes are left out."""
    triplets = np.concatenate([answers[:, :3], answers[:, [0, 2, 1]]])
    votes = np.concatenate([answers[:, 3], answers[:, 4]]).astype(float)
    return triplets[votes > 0], votes[votes > 0]


def ceiling(triplets, votes):
    """Return the largest share of votes that a metric can agree with: those of the majorities."""
    swapped = triplets[:, 2] < triplets[:, 1]
    asked = np.where(swapped[:, None], triplets[:, [0, 2, 1]], triplets)
    question = np.unique(asked, axis=0, return_inverse=True)[1].ravel()
    totals = [
        np.bincount(question, votes * side, question.max() + 1) for side in (swapped, ~swapped)
    ]
    return float(np.maximum(*totals).sum() / votes.sum())


def make_items(dataset, rng):
    """Return a split of material, food or zappos."""
    data = load(dataset)
    if dataset == "material":
        triplets, votes = of_votes(np.concatenate([data["train"], data["test"]]))
        return unseen_items(data["X"], triplets, votes, rng, 30)
    if dataset == "food":
        return unseen_items(unit(data["X"]), data["triplets"], None, rng)
    return unseen_items(data["X"], data["triplets"], None, rng, 20)


def make_faces():
    """Return the official split of the answers about faces; all items are seen."""
    data = load("faces36")
    X, answers, is_test = data["X"].astype(float), data["triplets"], data["is_test"]
    return SimpleNamespace(
        X=X,
        triplets=answers[~is_test],
        weights=None,
        X_test=X,
        unseen=answers[is_test],
        votes=None,
    )


def make_banking(rng):
    """Return ten labelled texts of each intent, and the test part."""
    data = load("banking77")
    labels = data["train_label"]
    rows = np.concatenate(
        [
            rng.choice(np.flatnonzero(labels == label), PER_CLASS, replace=False)
            for label in np.unique(labels)
        ]
    )
    return SimpleNamespace(
        rows=rows,
        X=unit(data["train"][rows]),
        y=labels[rows],
        X_test=unit(data["test"]),
        y_test=data["test_label"],
    )


def make_cranfield(split, rng):
    """Return triplets of four fifths of the queries, and the other queries with theirs.

    Each relevant abstract of a query is compared with the ten nearest that are not, which are hard,
    and with three drawn at random. All splits must be given the same ``rng``.
    """
    data = load("cranfield")
    queries, documents = unit(data["queries"]), unit(data["documents"])
    relevant = np.zeros((len(queries), len(documents)), bool)
    relevant[tuple(data["relevant"][data["grade"] > 0].T)] = True
    test = np.array_split(rng.permutation(len(queries)), N_SPLITS["cranfield"])[split]
    nearest = np.argsort(-queries @ documents.T, axis=1)
    triplets = []
    for query in range(len(queries)):
        others = nearest[query][~relevant[query][nearest[query]]]
        for right in np.flatnonzero(relevant[query]):
            far = [*others[:10], *rng.choice(others, 3, replace=False)]
            triplets += [(query, len(queries) + right, len(queries) + wrong) for wrong in far]
    triplets = np.array(triplets)
    scored = np.isin(triplets[:, 0], test)
    return SimpleNamespace(
        X=np.concatenate([queries, documents]),
        triplets=triplets[~scored],
        unseen=triplets[scored],
        weights=None,
        test=test,
        queries=queries[test],
        documents=documents,
        relevant=relevant[test],
    )


@lru_cache(maxsize=1)  # all methods in turn are given the same task
def make_task(dataset, split):
    """Return what is learned from and what is scored."""
    if dataset == "faces36":
        return make_faces()
    if dataset == "cranfield":
        return make_cranfield(split, np.random.default_rng(seed_of("people", dataset)))
    rng = np.random.default_rng(seed_of("people", dataset, split))
    return make_banking(rng) if dataset == "banking77" else make_items(dataset, rng)


def retrieval(Y, Z, relevant):
    """Return means over queries: nDCG@10, reciprocal rank of the first hit, recall@20.

    Relevance is yes or no. ``Y`` are mapped queries, ``Z`` mapped documents.
    """
    distances = (Z**2).sum(axis=1) - 2 * Y @ Z.T  # and what does not change the order
    hits = np.take_along_axis(relevant, np.argsort(distances, axis=1, kind="stable"), axis=1)
    counts = relevant.sum(axis=1)
    hits, counts = hits[counts > 0], counts[counts > 0]
    discount = 1 / np.log2(np.arange(2, 12))
    best = np.cumsum(discount)[np.minimum(counts, 10) - 1]
    return {
        "ndcg": float(np.mean(hits[:, :10] @ discount / best)),
        "mrr": float(np.mean(1 / (1 + hits.argmax(axis=1)))),
        "recall": float(np.mean(hits[:, :20].sum(axis=1) / counts)),
    }


def do_job(dataset, split, method):
    """Fit one method to one split; return its scores on what was held out."""
    task = make_task(dataset, split)
    if method == CEILING:
        return {"share": ceiling(task.unseen, task.votes), "seconds": 0.0}
    model = {**METHODS, **OF_LABELS}[method](split)
    if dataset == "banking77":
        model, seconds = timed_fit(model, task.X, task.y)
    else:
        given = {"triplets": task.triplets, "constraint_weight": task.weights}
        model, seconds = timed_fit(model, task.X, **given)
    result = {"seconds": round(seconds, 3)}
    if hasattr(model, "strength_"):
        result["strength"] = model.strength_
    if dataset == "cranfield":
        Y, Z = model.transform(task.queries), model.transform(task.documents)
        share = share_that_holds(model.transform(task.X), task.unseen)
        return {**retrieval(Y, Z, task.relevant), "share": share, **result}
    if method == LOGISTIC:
        return {"accuracy": float(model.score(task.X_test, task.y_test)), **result}
    Y_test = model.transform(task.X_test)
    if dataset == "banking77":
        # Of 77 classes three neighbours are often of three. Scikit-learn then takes the class that
        # is listed first; with votes weighted by nearness it is that of the nearest.
        mapped = (model.transform(task.X), task.y, Y_test, task.y_test)
        weighted = nearest_three(*mapped, weights="distance")
        return {"accuracy": nearest_three(*mapped), "weighted": weighted, **result}
    return {"share": share_that_holds(Y_test, task.unseen, task.votes), **result}


def all_jobs():
    for dataset, n_splits in N_SPLITS.items():
        if data_file(dataset) is None:
            print(f"{dataset} is left out: MDAML_DATA names no folder with human/{FILES[dataset]}")
            continue
        for split in range(n_splits):
            for method in methods_of(dataset):
                yield {"dataset": dataset, "split": split, "method": method}


def cell(records, score):
    """Return mean and standard deviation over splits."""
    values = [r[score] for r in records if score in r]
    if len(values) < 2:
        return f"{values[0]:.3f}" if values else ""
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}"


def scores_table(records, columns):
    """Return one row for each method, one column for each set and score."""
    rows = []
    for method in [*METHODS, *OF_LABELS, CEILING]:
        cells = [
            cell(chosen(records, dataset=dataset, method=method), score)
            for dataset, score in columns.values()
        ]
        if any(cells):
            rows.append([method, *cells])
    return table(["method", *columns], rows)


def starts_table(records):
    """Return by how much each method is above the start, and in how many splits it is below."""
    rows = []
    for method in [*METHODS, *OF_LABELS]:
        cells = []
        for dataset, (score, *_) in SCORES.items():
            own, base = (
                {r["split"]: r[score] for r in chosen(records, dataset=dataset, method=m)}
                for m in (method, START)
            )
            gain = np.array([own[split] - base[split] for split in own])
            below = np.count_nonzero(gain < 0)
            cells.append(f"{gain.mean():+.3f} ({below} of {len(gain)})" if own else "")
        if method != START:
            rows.append([method, *cells])
    return table(["method", *SCORES], rows)


def targets_table(records):
    """Return the targets set before the run, and what was reached."""

    def of(dataset, method, score=None):
        score = score or SCORES[dataset][0]
        return np.mean([r[score] for r in chosen(records, dataset=dataset, method=method)])

    rows = []
    for method in OURS:
        below = [d for d in SCORES if of(d, method) < of(d, START)]
        rows.append([f"{method}: on no set below the start", ", ".join(below) or "none", not below])
    for dataset, score, least in [
        ("food", "share", 0.705),
        ("banking77", "accuracy", 0.85),
        ("banking77", "weighted", 0.85),
        ("cranfield", "ndcg", None),
    ]:
        for method in OURS:
            wanted, came = least or of(dataset, START, score), of(dataset, method, score)
            what = f"{wanted:.3f}" if least else f"{wanted:.3f}, cosine"
            name = f"{dataset}, 3-NN weighted" if score == "weighted" else dataset
            rows.append([f"{name}, {method}: at least {what}", f"{came:.3f}", came >= wanted])
    return table(
        ["wanted", "came", "met"],
        [[wanted, came, "yes" if met else "no"] for wanted, came, met in rows],
    )


def report(records):
    """Return the lines of all tables."""
    comparisons = {
        name: (name, "share") for name in N_SPLITS if name not in ("banking77", "cranfield")
    }
    others = {
        "banking77, 3-NN": ("banking77", "accuracy"),
        "3-NN weighted": ("banking77", "weighted"),
        "cranfield, nDCG@10": ("cranfield", "ndcg"),
        "MRR": ("cranfield", "mrr"),
        "recall@20": ("cranfield", "recall"),
        "comparisons": ("cranfield", "share"),
    }
    seconds = [
        [method]
        + [
            f"{np.mean([r['seconds'] for r in own]):.2f}" if own else ""
            for own in (chosen(records, dataset=d, method=method) for d in N_SPLITS)
        ]
        for method in [*METHODS, *OF_LABELS]
    ]
    return [
        "### Targets",
        "",
        *targets_table(records),
        "",
        "### Share of answers about unseen items that hold",
        "",
        *scores_table(records, comparisons),
        "",
        "### Embeddings of texts",
        "",
        *scores_table(records, others),
        "",
        "### Above the start, and splits below it",
        "",
        *starts_table(records),
        "",
        "### Seconds of a fit",
        "",
        *table(["method", *N_SPLITS], seconds),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
