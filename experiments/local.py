"""A place for every mode: what places and maps gain on one linear map, and on a small network.

kinds    classes of eight sets thrown at random into groups; 1500, 10 000 or 40 000 triplets compare
         the groups, all of them right or 20 % turned round; two splits. On held-out rows: the share
         of comparisons that hold, and the accuracy of 3-NN for the groups and for the classes they
         are made of.
people   answers about food, materials, shoes and faces; the share that hold among items not seen
         (of faces: among answers not seen).
labels   accuracy of 3-NN on held-out rows.

The network (network.py) needs torch, which is not among the requirements here; without it its jobs
are left out.

``MDAML_DATA=... python experiments/local.py run`` appends to results/local.jsonl and goes on where
it was interrupted; ``python experiments/local.py report`` prints the tables of docs/places.md.
"""

import argparse
import itertools
import time
import warnings
from functools import lru_cache
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
from _record import resume, table
from kinds import GROUPS, load, nearest_three, share_that_holds
from network import Network
from people import data_file, make_task
from sklearn.preprocessing import StandardScaler
from study import DATASETS, HERE, seed_of, split

from mdaml import GMML, KISSME, Euclidean, LocalMDaML, MDaML
from mdaml.constraints import sample_triplets
from mdaml.experiments.records import read_records

RECORDS = HERE.parent / "results" / "local.jsonl"
MOST_ROWS = 2000
# Of the eight sets of kinds.py. Defaults were chosen on other groups and splits of these four.
PARTS = {"looked at": ["letter", "digits", "vehicle", "movement_libras"]}
PARTS["not looked at"] = [name for name in GROUPS if name not in PARTS["looked at"]]
CASES = [(10_000, 0.0), (1500, 0.0), (40_000, 0.0), (10_000, 0.2), (1500, 0.2), (40_000, 0.2)]
N_SPLITS = 2
PEOPLE = {"food": 4, "material": 4, "zappos": 4, "faces36": 1}
OURS, LINEAR, NETWORK = "LocalMDaML()", "MDaML()", "network"
SCORES = {"share": "agreement", "groups": "3-NN groups", "kinds": "3-NN kinds"}


METHODS = {
    "Euclid": lambda _: Euclidean(),
    LINEAR: lambda seed: MDaML(random_state=seed),
    'MDaML(goal="neighbors")': lambda seed: MDaML(goal="neighbors", random_state=seed),
    "GMML()": lambda _: GMML(),
    "KISSME()": lambda _: KISSME(),
    OURS: lambda seed: LocalMDaML(random_state=seed),
    NETWORK: Network,
}


def prepared(X, train, test):
    """Return standardised rows to learn from and held-out ones, without constant columns."""
    X = X[:, X[train].std(axis=0) > 0]
    scale = StandardScaler().fit(X[train])
    return scale.transform(X[train]), scale.transform(X[test])


@lru_cache(maxsize=1)
def make_kinds(dataset, n_triplets, wrong, number):
    """Return a case of groups of classes; few triplets are some of the many, wrong ones turned."""
    X, y = load(dataset)
    rng = np.random.default_rng(seed_of("local", dataset) + number)
    rows = rng.permutation(len(y))[:MOST_ROWS]
    groups = rng.permutation(np.arange(y.max() + 1) % GROUPS[dataset])
    train, test = np.split(rows, [int(0.7 * len(rows))])
    X_train, X_test = prepared(X, train, test)
    unseen = sample_triplets(groups[y[test]], 10, 10, random_state=rng)
    triplets = sample_triplets(groups[y[train]], 10, 10, random_state=rng)
    triplets = triplets[rng.permutation(len(triplets))[:n_triplets]]
    turned = rng.random(len(triplets)) < wrong
    triplets[turned] = triplets[turned][:, [0, 2, 1]]
    return SimpleNamespace(
        X=X_train,
        supervision={"triplets": triplets},
        X_test=X_test,
        unseen=unseen,
        votes=None,
        labels={"groups": (groups[y[train]], groups[y[test]]), "kinds": (y[train], y[test])},
    )


@lru_cache(maxsize=1)
def make_people(dataset, number):
    """Return the answers of people, in a split of the items."""
    task = make_task(dataset, number)
    supervision = {"triplets": task.triplets}
    if task.weights is not None:
        supervision["constraint_weight"] = task.weights
    return SimpleNamespace(
        X=task.X,
        supervision=supervision,
        X_test=task.X_test,
        unseen=task.unseen,
        votes=task.votes,
        labels={},
    )


@lru_cache(maxsize=1)
def make_labels(dataset, number):
    """Return a split of a set with labels, standardised."""
    _, X, y, X_test, y_test = split(dataset, number)
    labels = {"classes": (y, y_test)}
    return SimpleNamespace(X=X, supervision={"y": y}, X_test=X_test, unseen=None, labels=labels)


def do_job(study, dataset, case, method):
    """Fit one method to one case; return its scores on held-out rows."""
    make = {"kinds": make_kinds, "people": make_people, "labels": make_labels}[study]
    data, model = make(dataset, *case), METHODS[method](0)
    started, clock = time.process_time(), time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of wrong answers and few samples, which are studied
        model.fit(data.X, **data.supervision)
    found = {
        "seconds": round(time.process_time() - started, 3),
        "waited": round(time.perf_counter() - clock, 3),
        "n_places": getattr(model, "n_places_", None),
        "n_maps": getattr(model, "n_maps_", None),
        "anchor": getattr(model, "anchor_", None),
    }
    Y, Y_test = model.transform(data.X), model.transform(data.X_test)
    if data.unseen is not None:
        found["share"] = share_that_holds(Y_test, data.unseen, data.votes)
    for name, (y, y_test) in data.labels.items():
        found[name] = nearest_three(Y, y, Y_test, y_test)
    return found


def all_jobs():
    others = [name for name in METHODS if name != NETWORK]
    for methods in (others, [NETWORK] if find_spec("torch") else []):  # the slow one last
        for case, sets in itertools.product(CASES, PARTS.values()):
            for dataset, method, number in itertools.product(sets, methods, range(N_SPLITS)):
                yield job("kinds", dataset, [*case, number], method)
        for dataset in filter(data_file, PEOPLE):
            for number, method in itertools.product(range(PEOPLE[dataset]), methods):
                yield job("people", dataset, [number], method)
    for dataset, method in itertools.product(DATASETS, (LINEAR, OURS)):
        yield job("labels", dataset, [0], method)


def job(*values):
    return dict(zip(("study", "dataset", "case", "method"), values, strict=True))


def chosen(records, **wanted):
    """Return the records whose entries are as wanted."""
    return [r for r in records if all(r[name] == value for name, value in wanted.items())]


def in_order():
    """Cases by the share of wrong answers, then by their number, as tables show them."""
    return sorted(CASES, key=lambda case: (case[1], case[0]))


def kinds_table(records, sets):
    """Return mean scores of each method in each case of some sets."""
    rows = []
    for (n, wrong), method in itertools.product(in_order(), METHODS):
        own = chosen(records, study="kinds", method=method)
        own = [r for r in own if r["dataset"] in sets and r["case"][:2] == [n, wrong]]
        if len(own) == N_SPLITS * len(sets):
            cells = [f"{100 * np.mean([r[name] for r in own]):.1f}" for name in SCORES]
            seconds = np.mean([r["seconds"] for r in own])
            rows.append([f"{n}, {wrong:.0%} wrong", method, *cells, f"{seconds:.2f}"])
    return table(["triplets", "method", *SCORES.values(), "s"], rows)


def summary_table(records, scores=("share", "kinds")):
    """Return the mean scores of four methods over all sets, a row for each case and score."""
    methods = ("Euclid", LINEAR, OURS, NETWORK)
    rows = []
    for score, (n, wrong) in itertools.product(scores, in_order()):
        own = [r for r in chosen(records, study="kinds") if r["case"][:2] == [n, wrong]]
        cells = (np.mean([r[score] for r in chosen(own, method=name)]) for name in methods)
        rows.append([SCORES[score], f"{n}, {wrong:.0%} wrong", *(f"{100 * c:.1f}" for c in cells)])
    return table(["score", "comparisons", *methods], rows)


def sets_table(records, score):
    """Return a score of each method on each set with 10 000 right triplets."""
    rows = []
    for method in METHODS:
        own = chosen(records, study="kinds", method=method)
        found = {name: [] for name in GROUPS}
        for r in own:
            if r["case"][:2] == [*CASES[0]]:
                found[r["dataset"]].append(r[score])
        if all(found.values()):
            rows.append([method, *(f"{100 * np.mean(found[name]):.1f}" for name in GROUPS)])
    return table(["method", *GROUPS], rows)


def people_table(records):
    """Return the mean share of answers that hold, by set."""
    rows = []
    for method in METHODS:
        cells = []
        for name in PEOPLE:
            own = chosen(records, study="people", dataset=name, method=method)
            cells.append(f"{100 * np.mean([r['share'] for r in own]):.1f}" if own else "")
        rows.append([method, *cells])
    return table(["method", *PEOPLE], rows)


def labels_table(records):
    """Return the accuracy of 3-NN by set, and the mean."""
    scores = {}
    for method in (LINEAR, OURS):
        own = {r["dataset"]: r for r in chosen(records, study="labels", method=method)}
        scores[method] = [
            100 * own[name]["classes"] if name in own else np.nan for name in DATASETS
        ]
    rows = [
        [name, *(f"{found[n]:.1f}" for found in scores.values())] for n, name in enumerate(DATASETS)
    ]
    rows.append(["mean", *(f"{np.mean(found):.2f}" for found in scores.values())])
    return table(["set", *scores], rows)


def chosen_table(records):
    """Return what LocalMDaML chose, and the points that it is above MDaML."""
    by_key = {(r["study"], r["dataset"], str(r["case"]), r["method"]): r for r in records}
    rows = []
    for (study, dataset, case, method), r in by_key.items():
        linear = by_key.get((study, dataset, case, LINEAR))
        score = "classes" if study == "labels" else "share"
        if method == OURS and linear is not None:
            lead = f"{100 * (r[score] - linear[score]):+.1f}"
            anchor = f"{r['anchor']:.3g}"
            rows.append([study, dataset, case, r["n_places"], r["n_maps"], anchor, lead])
    return table(["study", "set", "case", "places", "maps", "anchor", "above MDaML()"], rows)


def report(records):
    """Return the lines of all tables."""
    lines = ["### Summary", "", *summary_table(records), ""]
    for title, sets in {"all sets": list(GROUPS), **PARTS}.items():
        lines += [f"### Kinds, {title}: {', '.join(sets)}", "", *kinds_table(records, sets), ""]
    for score, title in SCORES.items():
        lines += [f"### 10 000 triplets, {title}", "", *sets_table(records, score), ""]
    lines += ["### People", "", *people_table(records), ""]
    lines += ["### Labels", "", *labels_table(records), ""]
    return [*lines, "### What was chosen", "", *chosen_table(records)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
