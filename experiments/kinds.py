"""Comparisons of classes that are made of several kinds: what is learned from them, and for whom.

The fine classes of a set are thrown at random into two or three groups, the coarse classes.
Triplets compare samples by their coarse or by their fine classes, 100 or 5 for each sample, all of
them right or 15 % reversed: eight cases. Methods see the triplets and no labels. On held-out
rows:

compared   accuracy of 3-NN for the labels that were compared
fine       accuracy of 3-NN for the fine labels, unknown to the fit where coarse were compared
unseen     share of comparisons of held-out rows that hold

``python experiments/kinds.py run`` appends to results/kinds.jsonl and goes on where it was
interrupted; ``python experiments/kinds.py report`` prints the tables of docs/supervision.md.
"""

import argparse
import itertools
import os
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from _record import resume, table, timed_fit
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from study import HERE, interval, samples_of, seed_of

from mdaml import GMML, KISSME, PRESETS, DMLeig, Euclidean, MDaML, MDaMLCV
from mdaml.constraints import sample_triplets
from mdaml.experiments.records import read_records

RECORDS = HERE.parent / "results" / "kinds.jsonl"
N_SPLITS = 2
MOST_ROWS = 1500
FEW = 5
WRONG = 0.15
GROUPS = {
    **{"letter": 3, "vowel": 3, "segment": 2, "vehicle": 2},
    **{"digits": 2, "satimage": 2, "penbased": 3, "movement_libras": 3},
}
# No default was chosen with a look at these. Their files are found by MDAML_DATA, or left out.
KEPT_ASIDE = {"osr": 2, "pubfig": 3, "caltech20": 3, "banking77": 3}
HALVES = {"first half": list(GROUPS)[:4], "second half": list(GROUPS)[4:]}
CASES = list(itertools.product(("coarse", "fine"), (100, FEW), (0.0, WRONG)))
OURS, LABELS = 'MDaML(goal="neighbors")', "MDaML() from labels"
# The same goal without looking for groups, with modes and with one.
MODES, ONE_MODE, PAPER_ONE = "modes, no groups", "one mode, no groups", "Eq. (7), K=1"


NO_GROUPS = replace(PRESETS["neighbors"], find_groups=False)


def printed(n_modes):
    """Return a maker of MDaML (paper), Eq. (7) as printed: no anchor, no floor."""
    eta = 3.0 if n_modes == 3 else 2.0
    goal = replace(PRESETS["paper"], init_metric="auto")
    return lambda seed: MDaML(n_modes, goal=goal, eta=eta, random_state=seed)


METHODS = {
    "Euclid": lambda _: Euclidean(),
    "MDaML()": lambda seed: MDaML(random_state=seed),
    OURS: lambda seed: MDaML(goal="neighbors", random_state=seed),
    MODES: lambda seed: MDaML(goal=NO_GROUPS, anchor=0.1, random_state=seed),
    ONE_MODE: lambda seed: MDaML(anchor=0.1, random_state=seed),
    **{f"Eq. (7), K={n_modes}": printed(n_modes) for n_modes in (1, 3, 20)},
    "GMML()": lambda _: GMML(),
    "KISSME()": lambda _: KISSME(),
    "DMLeig()": lambda seed: DMLeig(random_state=seed),
    LABELS: lambda seed: MDaML(random_state=seed),  # an upper bound: it is given the classes
}
# Ten times the work of a fit, and worth it where there is little to learn from.
CHOSEN = {
    f'MDaMLCV(goal="{goal}")': lambda seed, goal=goal: MDaMLCV(goal=goal, random_state=seed)
    for goal in ("comparisons", "neighbors")
}


def load(dataset):
    """Return samples and classes 0, 1, ...; digits are those of scikit-learn."""
    if dataset == "banking77":
        with np.load(Path(os.environ["MDAML_DATA"]) / "human" / "banking77_minilm.npz") as data:
            X, y = normalize(data["train"].astype(float)), data["train_label"]
    else:
        X, y = load_digits(return_X_y=True) if dataset == "digits" else samples_of(dataset)
    return X.astype(float), np.unique(y, return_inverse=True)[1]


def prepare(dataset, X, X_test):
    """Return rows standardised by those to learn from; of images 100 principal components.

    Rows of unit length stay as they are.
    """
    if dataset == "banking77":
        return X, X_test
    steps = [StandardScaler()]
    if dataset in KEPT_ASIDE:
        steps.append(PCA(100, random_state=0))
    steps = make_pipeline(*steps).fit(X)
    return steps.transform(X), steps.transform(X_test)


@lru_cache(maxsize=1)  # all methods in turn are given the same case
def make_case(dataset, supervision, per_sample, wrong, split):
    """Return the rows to learn from with their triplets, and the held-out ones with theirs.

    Rows, groups and the comparisons that are scored depend on the set and the split alone (the last
    on what is compared as well), few triplets are some of the many, and the turned ones are turned
    copies: cases differ in nothing else.
    """
    X, y = load(dataset)
    rng = np.random.default_rng(seed_of("kinds", dataset, split))
    rows = rng.permutation(len(y))[:MOST_ROWS]
    groups = rng.permutation(np.arange(y.max() + 1) % {**GROUPS, **KEPT_ASIDE}[dataset])
    train, test = np.split(rows, [int(0.7 * len(rows))])
    X = X[:, X[train].std(axis=0) > 0]  # pixels that are always empty
    X_train, X_test = prepare(dataset, X[train], X[test])
    labels = groups[y] if supervision == "coarse" else y
    unseen = sample_triplets(labels[test], 10, 10, random_state=rng)
    triplets = sample_triplets(labels[train], 10, 10, random_state=rng)
    if per_sample < 100:
        kept = rng.permuted(np.tile(np.arange(100), (len(triplets) // 100, 1)), axis=1)
        kept = np.sort(kept[:, :per_sample], axis=1) + 100 * np.arange(len(kept))[:, None]
        triplets = triplets[kept.ravel()]
    turned = rng.random(len(triplets)) < wrong
    triplets[turned] = triplets[turned][:, [0, 2, 1]]
    return SimpleNamespace(
        train=train,
        test=test,
        groups=groups,
        X=X_train,
        labels=labels[train],
        fine=y[train],
        triplets=triplets,
        turned=turned,
        X_test=X_test,
        labels_test=labels[test],
        fine_test=y[test],
        unseen=unseen,
    )


def share_that_holds(Y, triplets, weights=None):
    """Return the share of triplets whose first pair is nearer than the other."""
    i, j, r = triplets.T
    near, far = ((Y[i] - Y[j]) ** 2).sum(axis=1), ((Y[i] - Y[r]) ** 2).sum(axis=1)
    return float(np.average(near < far, weights=weights))


def nearest_three(Y, labels, Y_test, labels_test, weights="uniform"):
    """Return the accuracy of 3-NN on held-out rows."""
    knn = KNeighborsClassifier(3, weights=weights, n_jobs=1)
    return float(knn.fit(Y, labels).score(Y_test, labels_test))


def do_job(dataset, supervision, per_sample, wrong, split, method):
    """Fit one method to one case; return its scores on held-out rows."""
    case = make_case(dataset, supervision, per_sample, wrong, split)
    model = {**METHODS, **CHOSEN}[method](split)
    given = {"y": case.labels} if method == LABELS else {"triplets": case.triplets}
    model, seconds = timed_fit(model, case.X, **given)
    Y, Y_test = model.transform(case.X), model.transform(case.X_test)
    centers = getattr(getattr(model, "best_estimator_", model), "centers_", None)
    return {
        "compared": nearest_three(Y, case.labels, Y_test, case.labels_test),
        "fine": nearest_three(Y, case.fine, Y_test, case.fine_test),
        "unseen": share_that_holds(Y_test, case.unseen),
        "n_modes": None if centers is None else len(centers),
        "seconds": round(seconds, 3),
    }


def all_jobs():
    names = ("dataset", "supervision", "per_sample", "wrong", "split", "method")
    for split, dataset, case in itertools.product(range(N_SPLITS), GROUPS, CASES):
        for method in [*METHODS, *(CHOSEN if case[1] == FEW else ())]:
            yield dict(zip(names, (dataset, *case, split, method), strict=True))
    for split, dataset, kind in itertools.product(range(N_SPLITS), KEPT_ASIDE, ("coarse", "fine")):
        for method in METHODS if is_here(dataset) else ():
            yield dict(zip(names, (dataset, kind, FEW, WRONG, split, method), strict=True))


def is_here(dataset):
    """Return whether the file of a set that was kept aside is found."""
    home = os.environ.get("MDAML_DATA")
    name = "human/banking77_minilm.npz" if dataset == "banking77" else f"{dataset}.csv.gz"
    return home is not None and (Path(home) / name).is_file()


def chosen(records, **wanted):
    """Return the records whose entries are as wanted; a list allows any of its values."""
    return [
        r
        for r in records
        if all(r[k] in v if isinstance(v, list) else r[k] == v for k, v in wanted.items())
    ]


def mean(records, score):
    """Return a mean in percent."""
    return 100 * np.mean([r[score] for r in records])


def gains(records, method, base, score):
    """Return points that a method is above another, one for each set, case and split."""
    names = ("dataset", "supervision", "per_sample", "wrong", "split")
    at = {(*(r[n] for n in names), r["method"]): r[score] for r in records}
    keys = sorted(key[:-1] for key in at if key[-1] == method)  # whatever the order of records
    return np.array([100 * (at[*key, method] - at[*key, base]) for key in keys])


COLUMNS = {
    "coarse compared: 3-NN coarse": ("coarse", "compared"),
    "3-NN fine": ("coarse", "fine"),
    "unseen coarse": ("coarse", "unseen"),
    "fine compared: 3-NN fine": ("fine", "fine"),
    "unseen fine": ("fine", "unseen"),
}
NEIGHBORS = {
    "Compared coarse, 3-NN of coarse labels": ("coarse", "compared"),
    "Compared coarse, 3-NN of fine labels": ("coarse", "fine"),
    "Compared fine, 3-NN of fine labels": ("fine", "fine"),
}


def means_table(records, methods):
    """Return mean scores by what was compared."""
    rows = []
    for method in methods:
        own = chosen(records, method=method)
        cells = [
            f"{mean(chosen(own, supervision=kind), score):.1f}" for kind, score in COLUMNS.values()
        ]
        seconds = np.mean([r["seconds"] for r in own])
        modes = [r["n_modes"] for r in own if r["n_modes"] is not None]
        rows.append([method, *cells, f"{np.mean(modes):.0f}" if modes else "", f"{seconds:.2f}"])
    return table(["method", *COLUMNS, "modes", "seconds"], rows)


def cases_table(records, methods, score):
    """Return mean scores case by case."""
    head = [
        f"{kind}{'' if n == 100 else ', few'}{', noisy' if wrong else ''}"
        for kind, n, wrong in CASES
    ]
    rows = []
    for method in methods:
        cells = []
        for supervision, per_sample, wrong in CASES:
            own = chosen(
                records, method=method, supervision=supervision, per_sample=per_sample, wrong=wrong
            )
            cells.append(f"{mean(own, score):.1f}" if own else "")
        rows.append([method, *cells])
    return table(["method", *head], rows)


def gains_by_set(records, method, supervision, score):
    """Return mean points above Euclid, one for each set."""
    own = chosen(records, supervision=supervision)
    return [gains(chosen(own, dataset=name), method, "Euclid", score).mean() for name in GROUPS]


def lowest(gain):
    """Return the lowest of the gains of all sets in words."""
    return f"{min(gain):+.2f} ({list(GROUPS)[int(np.argmin(gain))]})"


def sets_table(records, methods):
    """Return what each method gains on Euclid on each set, and where it gains least."""
    lines = []
    for title, columns in NEIGHBORS.items():
        by_method = {method: gains_by_set(records, method, *columns) for method in methods}
        rows = [
            [method, *(f"{g:+.1f}" for g in gain), f"{np.mean(gain):+.2f}", lowest(gain)]
            for method, gain in by_method.items()
        ]
        lines += ["", f"{title}:", "", *table(["method", *GROUPS, "mean", "worst"], rows)]
    return lines


def aside_table(records, methods):
    """Return scores on the sets that were kept aside: compared coarse, and compared fine."""
    rows = []
    for method in methods:
        cells = []
        for dataset, (kind, score) in itertools.product(KEPT_ASIDE, NEIGHBORS.values()):
            own = chosen(records, method=method, dataset=dataset, supervision=kind)
            cells.append(f"{mean(own, score):.1f}")
        joined = [" / ".join(cells[i : i + 3]) for i in range(0, len(cells), 3)]
        rows.append([method, *joined])
    return table(["method", *KEPT_ASIDE], rows)


def front_table(records, methods):
    """Return 3-NN of the compared labels against unseen comparisons, and who is beaten in both."""
    points = {
        m: [mean(chosen(records, method=m), s) for s in ("compared", "unseen")] for m in methods
    }
    rows = []
    for method in sorted(methods, key=lambda m: -points[m][0]):
        beaten = [m for m in methods if np.all(np.subtract(points[m], points[method]) > 0)]
        knn, unseen = points[method]
        rows.append([method, f"{knn:.2f}", f"{unseen:.2f}", "" if beaten else "yes"])
    return table(["method", "3-NN, compared labels", "unseen comparisons", "on the front"], rows)


def modes_table(records):
    """Return what modes gain on one mode, with intervals over all fits and over sets."""
    rows = []
    for title, wanted in {
        "all": {},
        **{f"compared {kind}": {"supervision": kind} for kind in ("coarse", "fine")},
        **{title: {"dataset": names} for title, names in HALVES.items()},
    }.items():
        for score in ("compared", "fine", "unseen"):
            own = chosen(records, **wanted)
            gain = gains(own, MODES, ONE_MODE, score)
            by_set = [
                gains(chosen(own, dataset=name), MODES, ONE_MODE, score).mean()
                for name in wanted.get("dataset", GROUPS)
            ]
            limits = ["{:+.2f} to {:+.2f}".format(*interval(of)) for of in (gain, by_set)]
            rows.append([title, score, len(gain), f"{gain.mean():+.2f}", *limits])
    return table(["cases", "score", "fits", "difference", "95 %, fits", "95 %, sets"], rows)


def targets_table(records):
    """Return the targets set before the run, and what was reached."""
    gain = {columns: gains_by_set(records, OURS, *columns) for columns in NEIGHBORS.values()}
    coarse, fine = np.mean(gain["coarse", "compared"]), np.mean(gain["coarse", "fine"])
    rows = [
        ["coarse compared, 3-NN coarse: one point above Euclid", f"{coarse:+.2f}", coarse >= 1],
        ["coarse compared, 3-NN fine: not below Euclid", f"{fine:+.2f}", fine >= 0],
    ]
    for title, columns in NEIGHBORS.items():
        wanted = f"{title[0].lower()}{title[1:]}: no set more than half a point below Euclid"
        rows.append([wanted, lowest(gain[columns]), min(gain[columns]) >= -0.5])
    for better, one in ((OURS, PAPER_ONE), (MODES, ONE_MODE)):
        for title, of in {"all cases": {}, "coarse compared": {"supervision": "coarse"}}.items():
            lead = gains(chosen(records, **of), better, one, "compared")
            low, high = interval(lead)
            figure = f"{lead.mean():+.2f} ({low:+.2f} to {high:+.2f})"
            wanted = f"{title}, 3-NN: {better} three points above {one}"
            rows.append([wanted, figure, lead.mean() >= 3])
    return table(
        [f"wanted of {OURS}", "came", "met"],
        [[wanted, came, "yes" if met else "no"] for wanted, came, met in rows],
    )


def report(records):
    """Return the lines of all tables."""
    aside, records = (chosen(records, dataset=list(names)) for names in (KEPT_ASIDE, GROUPS))
    methods, few = list(METHODS), chosen(records, per_sample=FEW)
    lines = ["### Targets", "", *targets_table(records)]
    lines += ["", "### Means of the eight cases, all sets", "", *means_table(records, methods)]
    for title, names in HALVES.items():
        own = chosen(records, dataset=names)
        lines += ["", f"### Means, {title}: {', '.join(names)}", "", *means_table(own, methods)]
    everyone = [*methods, *CHOSEN]
    lines += ["", "### Means of the four cases with five triplets a sample", ""]
    lines += means_table(few, everyone)
    for score in ("compared", "unseen"):
        lines += ["", f"### Case by case, {score}", "", *cases_table(records, everyone, score)]
    lines += ["", "### Points above Euclid, set by set", *sets_table(records, methods[1:])]
    lines += ["", "### Points above Euclid with five triplets a sample"]
    lines += sets_table(few, list(CHOSEN))
    lines += ["", "### Neighbours against agreement, all cases", "", *front_table(records, methods)]
    lines += ["", "### Neighbours against agreement, five triplets a sample", ""]
    lines += front_table(few, everyone)
    lines += ["", "### Modes against one mode", "", *modes_table(records)]
    return [*lines, "", "### Four sets kept aside", "", *aside_table(aside, methods)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
