"""A metric for each person: share of the official test answers of faces36 that hold.

all       every person has so many answers, drawn at random five times; 1000 is all there are
joined    the others have all their answers, the person joins with so many, drawn three times

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
from study import HERE, seed_of

from mdaml.experiments.records import read_records
from mdaml.people import PersonalMetrics

RECORDS = HERE.parent / "results" / "persons.jsonl"
ANSWERS = (50, 150, 1000)
FEATURES = ("as given", "told apart")
WANTED = {50: 0.686, 150: 0.70, 1000: 0.708}


def samples(features):
    """Return the faces."""
    X = load("faces36")["X"]
    X = X.astype(float)
    return X if features == "as given" else np.hstack([X, np.eye(len(X))])


def draw(person, n_answers, split):
    """Return the rows of some training answers of a person."""
    data = load("faces36")
    own = np.flatnonzero(~data["is_test"] & (data["person"] == person))
    rng = np.random.default_rng(seed_of("persons", split, int(person)))
    return rng.permutation(own)[:n_answers]


def do_job(protocol, features, n_answers, split):
    """Learn from some answers of persons, and score the test answers."""
    data, X = load("faces36"), samples(features)
    answers, who, is_test = data["triplets"], data["person"], data["is_test"]
    persons = np.unique(who)
    if protocol == "all":
        rows = np.concatenate([draw(person, n_answers, split) for person in persons])
        model, seconds = timed_fit(PersonalMetrics(), X, triplets=answers[rows], who=who[rows])
        own = model.score_triplets(X, answers[is_test], who=who[is_test])
        shared = model.score_triplets(X, answers[is_test])
        return {"own": own, "shared": shared, "seconds": round(seconds, 2)}
    own, shared = 0.0, 0.0
    for person in persons:
        test, rows = is_test & (who == person), draw(person, n_answers, split)
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


def all_jobs():
    if data_file("faces36") is None:
        print("MDAML_DATA names no folder with human/faces36.npz")
        return
    for protocol, n_splits in (("all", 5), ("joined", 3)):
        for features in FEATURES:
            for n_answers in ANSWERS:
                for split in range(1 if n_answers == max(ANSWERS) else n_splits):
                    yield {
                        "protocol": protocol,
                        "features": features,
                        "n_answers": n_answers,
                        "split": split,
                    }


def report(records):
    """Return the lines of the table."""
    rows = []
    for protocol in ("all", "joined"):
        for features in FEATURES:
            for n_answers in ANSWERS:
                own = chosen(records, protocol=protocol, features=features, n_answers=n_answers)
                met = np.mean([r["own"] for r in own]) >= WANTED[n_answers]
                wanted, n = f"{WANTED[n_answers]:.3f}", "all" if n_answers == 1000 else n_answers
                scores = [cell(own, name) for name in ("own", "shared")]
                rows.append([protocol, features, n, *scores, wanted, "yes" if met else "no"])
    head = ["protocol", "features", "answers", "own metric", "shared metric", "wanted", "met"]
    return ["### Metrics of persons", "", *table(head, rows)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["run", "report"])
    if parser.parse_args().what == "run":
        resume(RECORDS, all_jobs(), do_job)
    else:
        print("\n".join(report(read_records(RECORDS))))


if __name__ == "__main__":
    main()
