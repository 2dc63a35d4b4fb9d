"""Errors of persons, estimated together with the metric."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from suite.models import make_mdaml

import mdaml
from mdaml import KISSME, Constraints, MDaML, MDaMLCV
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_triplets
from mdaml.solver.persons import Reliability

WRONG = (0.0, 0.1, 0.5)


@pytest.fixture(scope="module")
def crowd():
    """Return answers of three persons, one of whom answers at random; and right answers."""
    X = np.random.default_rng(0).normal(size=(80, 5))
    axes = np.diag([2.0, 1.0, 0.5, 0.1, 0.1])
    parts = [
        make_triplets(X, n_triplets=200, components=axes, wrong=wrong, random_state=seed)[0]
        for seed, wrong in enumerate(WRONG)
    ]
    right, _ = make_triplets(X, n_triplets=2000, components=axes, random_state=9)
    return X, np.concatenate(parts), np.repeat(["ann", "bob", "cy"], 200), right


def literal_objective(model, X, T, who, first):
    """Return the objective from fitted attributes, with loops: Eq. (7), anchor, errors."""
    centred, L = X - X.mean(axis=0), model.components_
    K, (n, d) = model.n_modes_, X.shape
    value = 0.0
    for i in range(n):
        for k in range(K):
            off = L @ (X[i] - model.centers_[k])
            value += model.weights_[i, k] ** model.eta_ * (off @ off) / (n * K)
    table = dict(
        zip(model.persons_["who"], zip(*model.persons_.values(), strict=True), strict=True)
    )
    weights = [table[name][3] for name in who]
    M = L.T @ L
    for (i, j, r), weight in zip(T, weights, strict=True):
        near, far = (X[i] - X[j]) @ M @ (X[i] - X[j]), (X[i] - X[r]) @ M @ (X[i] - X[r])
        x = far - near
        loss = 0.0 if x > 1 else 0.5 - x if x < 0 else (1 - x) ** 2 / 2
        shared = sum((model.weights_[i, k] * model.weights_[j, k]) ** model.eta_ for k in range(K))
        self_weight = model.floor_ + (1 - model.floor_) * shared
        value += model.triplet_weight_ / (K * sum(weights)) * weight * self_weight * loss
    value += model.ridge_ / 2 * np.sum(M**2)
    scale = 3.0 / (2 * np.mean(np.sum(centred**2, axis=1)))
    log_det = np.linalg.slogdet(M / scale)[1]
    strength = model.anchor_ * model.triplet_weight_ / (K * d)
    value += strength * (np.trace(M) / scale - log_det - d)
    start_weight = model.triplet_weight_ * len(T) / sum(weights)
    for _, count, error, _ in table.values():
        odds = np.log((1 - error) / error)
        term = (2 - first.offset * count) * odds + (20 + count) * np.log(1 + np.exp(-odds))
        value += start_weight / (K * len(T) * first.usual * first.unit) * term
    return value


@pytest.mark.parametrize("n_modes", [1, 2])
def test_history_is_the_objective_and_never_rises(crowd, n_modes, monkeypatch):
    X, T, who, _ = crowd
    seen = []
    update = Reliability.updated
    monkeypatch.setattr(
        Reliability, "updated", lambda self, losses: seen.append(self) or update(self, losses)
    )
    options = {"triplet_weight": 6.0, "anchor": 0.1, "floor": 0.5, "random_state": 0}
    model = make_mdaml("neighbors", n_modes, **options).fit(X, triplets=T, who=who)
    assert np.all(np.diff(model.history_) <= 1e-9 * model.history_[:-1])
    expected = literal_objective(model, X, T, who, seen[0])
    assert model.history_[-1] == pytest.approx(expected, rel=1e-6)
    assert len(model.pass_starts_) > 1


def test_errors_are_at_their_minimum():
    persons = Persons.from_who(["a", "b", "b", "c", "a", "c"], 6)
    losses = np.array([0.1, 0.9, 0.3, 2.0, 0.0, 0.4])
    base = np.array([1.0, 2.0, 1.0, 1.0, 0.5, 0.5])
    first = Reliability.of_all(persons, base, losses, losses > 0.5)
    best = first.updated(losses)

    def value(errors):
        odds = np.log((1 - errors) / errors)
        lost = sum(first.base[t] * losses[t] * odds[persons.codes[t]] for t in range(6))
        return lost / (first.usual * 6) + replace(first, errors=errors).term()

    lowest = value(best.errors)
    assert lowest < value(first.errors)
    for person in range(3):
        for change in (-0.01, 0.01):
            errors = best.errors.copy()
            errors[person] += change
            assert value(errors) > lowest


def test_random_answers_count_less_and_the_metric_gains(crowd):
    X, T, who, right = crowd
    plain = MDaML(random_state=0).fit(X, triplets=T)
    model = MDaML(random_state=0).fit(X, triplets=T, who=who)
    assert plain.persons_ is None
    assert model.persons_["who"].tolist() == ["ann", "bob", "cy"]
    assert model.persons_["answers"].tolist() == [200, 200, 200]
    assert np.all(np.diff(model.persons_["error"]) > 0.0)
    assert model.persons_["weight"][0] > 3 * model.persons_["weight"][2]
    assert model.score_triplets(X, right) > plain.score_triplets(X, right)
    assert np.array_equal(model.triplets_, T)
    assert model.comparison_weights_.shape == (600,)


def test_one_person_changes_nothing_but_kernels(crowd):
    X, T, _, _ = crowd
    plain = MDaML(anchor=0.1, random_state=0, tol=1e-9, max_iter=200).fit(X, triplets=T)
    model = clone(plain).fit(X, triplets=T, who=np.zeros(len(T), int))
    assert np.allclose(model.persons_["weight"], 1.0, atol=0.15)
    assert np.allclose(model.components_, plain.components_, rtol=0.1, atol=0.05)


@pytest.mark.parametrize("device", [None, pytest.param("cpu", marks=pytest.mark.needs("torch"))])
@pytest.mark.parametrize("limit", [None, 67_300_000])
def test_every_store_finds_the_same(crowd, device, limit):
    X, T, who, _ = crowd
    if device is not None:
        limit = None
    options = {"anchor": 0.1, "floor": 0.5, "init_modes": "kmeans", "random_state": 0}
    model = make_mdaml("neighbors", 2, **options).fit(X, triplets=T, who=who)
    with mdaml.limit_memory(limit):
        other = clone(model).set_params(device=device).fit(X, triplets=T, who=who)
    assert np.allclose(model.persons_["error"], other.persons_["error"], atol=2e-3)
    assert other.history_[-1] == pytest.approx(model.history_[-1], rel=1e-3)


def test_model_with_persons_is_saved(crowd, tmp_path):
    X, T, who, _ = crowd
    model = MDaML(random_state=0, anchor=0.1).fit(X, triplets=T, who=who)
    model.save(tmp_path / "m.mdaml")
    again = mdaml.load(tmp_path / "m.mdaml")
    assert again.persons_["who"].tolist() == ["ann", "bob", "cy"]
    assert np.array_equal(again.persons_["error"], model.persons_["error"])


def test_search_hands_persons_on(crowd):
    X, T, who, _ = crowd
    model = MDaMLCV(random_state=0).fit(X, triplets=T, who=who)
    assert len(model.best_estimator_.persons_["error"]) == 3


def test_who_belongs_to_comparisons(crowd):
    X, T, who, _ = crowd
    with pytest.raises(ValueError, match="behind each triplet and quadruplet; got labels"):
        MDaML().fit(X, np.arange(80) % 2, who=who)
    supervision = Constraints(triplets=T, pairs=[[0, 1], [1, 2]], pair_labels=[1, -1])
    with pytest.raises(ValueError, match="got pairs"):
        MDaML().fit(X, constraints=supervision, who=[*who, "ann", "bob"])
    with pytest.raises(ValueError, match=r"each of the 600 comparisons; got shape \(3,\)"):
        MDaML().fit(X, triplets=T, who=["ann", "bob", "cy"])
    with pytest.raises(TypeError, match=r"KISSME does not weigh persons; got who="):
        KISSME().fit(X, triplets=T, who=who)
