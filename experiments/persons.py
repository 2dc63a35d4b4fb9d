"""Kinds of people and metrics of persons: simulations, an audit of honest persons, and faces36.

simulated   20 persons who look at three of six features, with 10 % of the answers wrong; the
            agreement with 300 right answers of each. *kinds*: three, with two shared and one own
            feature; *one*: all look at the same; *different*: everybody at other features;
            *overlapping*: kinds whose weights of the features differ by half; *unequal*: 10 to 110
            answers, 60 in the mean, and kinds of 14, 4 and 2 persons; *random*: as kinds, two of
            the 20 answer at random.
audit       15 to 30 persons, up to two of whom answer at random: how many of the honest and of the
            others a remark accuses; *3 of 30*: three persons look at wholly other features
all         faces36: every person has so many answers, drawn at random; 1000 is all there are
joined      the others have all their answers, the person joins with so many

The faces are described by four features (race, sex, expression), under which a third of them are
alike, or told apart by a feature of each face besides.

``MDAML_DATA=... python experiments/persons.py run`` appends to results/persons.jsonl and goes on
where it was interrupted; ``python experiments/persons.py report`` prints the tables of
docs/supervision.md.
"""

import argparse
from functools import cache

import numpy as np
from _record import resume, table, timed_fit
from kinds import chosen
from people import cell, data_file, load
from scipy.optimize import linear_sum_assignment
from study import HERE, seed_of

from mdaml import MDaML, audit
from mdaml.experiments.records import read_records
from mdaml.people import PersonalMetrics

RECORDS = HERE.parent / "results" / "persons.jsonl"
ANSWERS = (50, 150, 1000)
FEATURES = ("as given", "told apart")
WORLDS = ("kinds", "one", "different", "overlapping", "unequal", "random")
SIMULATED, N_DRAWS = (30, 60, 200), 8
N_AUDITS, AUDITED = 3, (0, 1, 2, 3, "3 of 30")


def looks(world, rng, n_persons, n_kinds=3):
    """Return the weights of six features for each person, and the kind of each."""
    kind = np.arange(n_persons) % n_kinds
    if world == "unequal":
        kind = np.repeat([0, 1, 2], [14, 4, 2])
    kind = np.zeros(n_persons, int) if world == "one" else kind
    weights = np.zeros((n_persons, 6))
    weights[:, :2] = 1.0
    weights[np.arange(n_persons), 2 + kind] = 1.0
    if world == "overlapping":
        weights[:, 2:5] = np.where(weights[:, 2:5] > 0, 1.0, 0.5)
    if world == "minority":
        weights[:] = np.repeat([1.0, 0.0], 3)
        weights[-3:] = np.repeat([0.0, 1.0], 3)
    if world == "different":
        weights = rng.uniform(size=(n_persons, 6)) * (rng.uniform(size=(n_persons, 6)) < 0.5)
        weights[np.arange(n_persons), rng.integers(6, size=n_persons)] = 1.0
    return weights, kind


def ask(X, weights, n, wrong, rng):
    """Return triplets about random samples by the features that somebody looks at."""
    T, Y = np.array([rng.permutation(len(X))[:3] for _ in range(n)]), X * weights
    near, far = (np.square(Y[T[:, 0]] - Y[T[:, k]]).sum(axis=1) for k in (1, 2))
    turned = (near > far) ^ (rng.uniform(size=n) < wrong)
    T[turned] = T[turned][:, [0, 2, 1]]
    return T


def simulate(world, n_answers, draw):
    """Learn from persons of a simulated world, and score right answers of theirs."""
    rng = np.random.default_rng(seed_of("persons", world, n_answers, draw))
    X = rng.normal(size=(200, 6))
    weights, kind = looks(world, rng, 20)
    counts = np.full(20, n_answers)
    if world == "unequal":
        counts = rng.permutation(np.linspace(n_answers / 6, n_answers * 11 / 6, 20).astype(int))
    wrong = np.where(np.arange(20) < (2 if world == "random" else 0), 0.5, 0.1)
    supervision = [ask(X, *each, rng) for each in zip(weights, counts, wrong, strict=True)]
    honest = np.flatnonzero(wrong < 0.5)
    test = np.concatenate([ask(X, weights[p], 300, 0.0, rng) for p in honest])
    asked, who = np.repeat(honest, 300), np.repeat(np.arange(20), counts)
    T = np.concatenate(supervision)
    model, seconds = timed_fit(PersonalMetrics(), X, triplets=T, who=who)
    own, shared = (model.score_triplets(X, test, who=each) for each in (asked, None))
    alone = [score_of(X, supervision[p], test[asked == p]) for p in honest]
    known = [
        score_of(X, T[np.isin(who, honest[kind[honest] == k])], test[kind[asked] == k])
        for k in np.unique(kind[honest])
    ]
    sizes = [np.mean(kind[asked] == k) for k in np.unique(kind[honest])]
    counts = np.zeros((20, 20))
    np.add.at(counts, (kind[honest], model.kind_of_person_[honest]), 1)
    right = counts[linear_sum_assignment(-counts)].sum() / len(honest)
    result = {"own": own, "shared": shared, "alone": float(np.mean(alone))}
    result |= {"known": float(np.dot(known, sizes)), "right": float(right)}
    return result | {"n_kinds": model.n_kinds_, "pull": model.pull_, "seconds": round(seconds, 2)}


def score_of(X, supervision, test):
    """Return the agreement of MDaML, learned from some answers, with others."""
    return timed_fit(MDaML(), X, triplets=supervision)[0].score_triplets(X, test)


def do_audit(n_kinds, n_answers, draw):
    """Count who is accused of errors, of the honest and of those who answer at random."""
    rng = np.random.default_rng(seed_of("audit", n_kinds, n_answers, draw))
    n_persons, n_random = int(rng.integers(15, 31)), int(rng.integers(3))
    X = rng.normal(size=(100, 6))
    world = {0: "different", "3 of 30": "minority"}.get(n_kinds, "kinds")
    n_persons = 30 if world == "minority" else n_persons
    weights, _ = looks(world, rng, n_persons, n_kinds if world == "kinds" else 1)
    wrong = np.where(np.arange(n_persons) < n_random, 0.5, 0.1)
    T = np.concatenate([ask(X, w, n_answers, e, rng) for w, e in zip(weights, wrong, strict=True)])
    model, _ = timed_fit(MDaML(), X, triplets=T)
    found = audit(model, X, triplets=T, who=np.repeat(np.arange(n_persons), n_answers))
    accused = found["remark"].str.contains("random|guesses|wrong way").to_numpy()
    return {
        "honest": n_persons - n_random,
        "accused": int(accused[n_random:].sum()),
        "random": n_random,
        "found": int(accused[:n_random].sum()),
    }


def samples(features):
    """Return the faces."""
    X = load("faces36")["X"]
    X = X.astype(float)
    return X if features == "as given" else np.hstack([X, np.eye(len(X))])


def draw_answers(person, n_answers, split):
    """Return the rows of some training answers of a person."""
    data = load("faces36")
    own = np.flatnonzero(~data["is_test"] & (data["person"] == person))
    rng = np.random.default_rng(seed_of("persons", split, int(person)))
    return rng.permutation(own)[:n_answers]


def do_faces(protocol, features, n_answers, split):
    """Learn from some answers of persons, and score the test answers."""
    data, X = load("faces36"), samples(features)
    answers, who, is_test = data["triplets"], data["person"], data["is_test"]
    persons = np.unique(who)
    if protocol == "all":
        rows = np.concatenate([draw_answers(person, n_answers, split) for person in persons])
        model, seconds = timed_fit(PersonalMetrics(), X, triplets=answers[rows], who=who[rows])
        own = model.score_triplets(X, answers[is_test], who=who[is_test])
        shared = model.score_triplets(X, answers[is_test])
        found = {"n_kinds": model.n_kinds_, "pull": model.pull_}
        return {"own": own, "shared": shared, "seconds": round(seconds, 2)} | found
    own, shared = 0.0, 0.0
    for person in persons:
        test, rows = is_test & (who == person), draw_answers(person, n_answers, split)
        weight = test.sum() / is_test.sum()
        model = learned_from_others(features, person)
        shared += weight * model.score_triplets(X, answers[test], who=None)
        model.add_persons(X, triplets=answers[rows], who=who[rows])  # in place of an earlier draw
        own += weight * model.score_triplets(X, answers[test], who=person)
    return {"own": float(own), "shared": float(shared)}


@cache  # a fit for each person, which all draws share
def learned_from_others(features, person):
    data = load("faces36")
    rows = ~data["is_test"] & (data["person"] != person)
    answers, who = data["triplets"][rows], data["person"][rows]
    return timed_fit(PersonalMetrics(), samples(features), triplets=answers, who=who)[0]


def do_job(protocol, **job):
    """Do what the protocol of a job says."""
    if protocol in ("all", "joined"):
        return do_faces(protocol, **job)
    return simulate(**job) if protocol == "simulated" else do_audit(**job)


def all_jobs():
    for draw in range(N_DRAWS):
        for world in WORLDS:
            for n in SIMULATED:
                yield {"protocol": "simulated", "world": world, "n_answers": n, "draw": draw}
    for draw in range(N_AUDITS):
        for n_kinds in AUDITED:
            for n in (20, 60, 200):
                yield {"protocol": "audit", "n_kinds": n_kinds, "n_answers": n, "draw": draw}
    if data_file("faces36") is None:
        print("MDAML_DATA names no folder with human/faces36.npz")
        return
    for protocol, n_splits in (("all", 3), ("joined", 1)):
        for features in FEATURES:
            for n_answers in ANSWERS:
                for split in range(1 if n_answers == max(ANSWERS) else n_splits):
                    job = {"features": features, "n_answers": n_answers, "split": split}
                    yield {"protocol": protocol, **job}


def report(records):
    """Return the lines of the tables."""
    rows = []
    for world in WORLDS:
        for n in SIMULATED:
            found = chosen(records, protocol="simulated", world=world, n_answers=n)
            if found:
                names = ("shared", "alone", "known", "own", "right")
                kinds = ", ".join(str(record["n_kinds"]) for record in found)
                rows.append([world, n, *(cell(found, name) for name in names), kinds])
    head = ["world", "answers", "shared", "each alone", "kinds known", "`PersonalMetrics()`"]
    lines = ["### Simulated persons", "", *table([*head, "kinds right", "kinds found"], rows), ""]
    rows = []
    for n_kinds in AUDITED:
        for n in (20, 60, 200):
            found = chosen(records, protocol="audit", n_kinds=n_kinds, n_answers=n)
            if found:
                names = ("honest", "accused", "random", "found")
                rows.append([n_kinds, n, *(sum(r[name] for r in found) for name in names)])
    head = ["kinds", "answers", "honest persons", "accused", "answer at random", "found"]
    lines += ["### Audit", "", *table(head, rows), ""]
    rows = []
    for protocol in ("all", "joined"):
        for features in FEATURES:
            for n in ANSWERS:
                own = chosen(records, protocol=protocol, features=features, n_answers=n)
                if own:
                    scores = [cell(own, name) for name in ("own", "shared")]
                    rows.append([protocol, features, "all" if n == 1000 else n, *scores])
    head = ["protocol", "features", "answers", "`PersonalMetrics()`", "shared metric"]
    return [*lines, "### Metrics of persons", "", *table(head, rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
