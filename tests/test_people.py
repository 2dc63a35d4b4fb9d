"""Metrics of persons: the objective and its minima, and what is learned of whom."""

import tracemalloc
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from mdaml import KISSME, Constraints, Euclidean, MDaML
from mdaml.datasets import make_triplets
from mdaml.people import PersonalMetrics
from mdaml.people._features import Answers, Coordinates
from mdaml.people._variational import (
    Prior,
    fit_persons,
    objective,
    update_persons,
    update_prior,
)


@pytest.fixture
def answers():
    """Return a few answers of three persons about samples on three axes, of which two are free."""
    rng = np.random.default_rng(0)
    Y, bounds = rng.normal(size=(12, 3)), np.array([0, 5, 6, 17])
    comparisons = np.array([rng.permutation(12)[:4] for _ in range(17)])
    return Answers(Coordinates(2, 1), Y, comparisons, rng.uniform(0.5, 2.0, 17), bounds)


@pytest.fixture
def prior():
    rng = np.random.default_rng(1)
    root = 0.3 * rng.normal(size=(4, 4))
    V = root @ root.T + 0.2 * np.eye(4)
    return Prior(rng.normal(size=(2, 4)), np.array([0.3, 0.7]), V, 0.1 * np.eye(4))


def literal_features(answers, t):
    """Return what multiplies S00, sqrt(2) S01, S11 and c in the margin of an answer."""
    a, b, c, d = answers.comparisons[t]
    total = np.zeros(4)
    for sign, one, other in ((1.0, c, d), (-1.0, a, b)):
        x, y, z = answers.Y[one] - answers.Y[other]
        total += sign * np.array([x * x, np.sqrt(2) * x * y, y * y, z * z])
    return total


def literal_objective(answers, prior, posterior, covariances):
    """Return minus the evidence bound, with loops."""
    value, q, precision = 0.0, 4, np.linalg.inv(prior.covariance)
    for p in range(3):
        m, C = posterior.means[p], covariances[p]
        for t in range(answers.bounds[p], answers.bounds[p + 1]):
            f = literal_features(answers, t)
            level = np.sqrt((f @ m) ** 2 + f @ C @ f)
            bound = -np.log(1 + np.exp(-level)) + (f @ m - level) / 2
            value -= answers.weights[t] * bound
        for g in range(len(prior.means)):
            r, off = posterior.groups[p, g], m - prior.means[g]
            if r > 0.0:
                value += r * np.log(r / prior.shares[g])
            divergence = np.log(np.linalg.det(prior.covariance) / np.linalg.det(C)) - q
            divergence += np.trace(precision @ C) + off @ precision @ off
            value += r * divergence / 2
    known = np.trace(precision @ prior.before) + np.log(np.linalg.det(prior.covariance))
    return value + 2 * q / 2 * known


def covariances_of(answers, prior, levels):
    out = []
    for p in range(3):
        precision = np.linalg.inv(prior.covariance)
        for t in range(answers.bounds[p], answers.bounds[p + 1]):
            f, x = literal_features(answers, t), levels[t]
            precision += 2 * answers.weights[t] * np.tanh(x / 2) / (4 * x) * np.outer(f, f)
        out.append(np.linalg.inv(precision))
    return out


def test_objective_is_that_of_the_loops(answers, prior):
    levels, groups = np.linspace(0.5, 2, 17), np.array([[0.5, 0.5], [1, 0], [0.2, 0.8]])
    posterior = update_persons(answers, prior, levels, groups)
    covariances = covariances_of(answers, prior, levels)
    assert np.allclose(posterior.variances, [np.diag(C) for C in covariances], rtol=1e-10)
    expected = literal_objective(answers, prior, posterior, covariances)
    assert objective(prior, posterior) == pytest.approx(expected, rel=1e-10)


def test_features_are_those_of_margins(answers):
    features, weights = answers.features(3, 9)
    assert np.allclose(features, [literal_features(answers, t) for t in range(3, 9)], rtol=1e-12)
    assert np.array_equal(weights, answers.weights[3:9])
    coefficients = np.array([2.0, 0.3, 1.0, 0.5])
    L = answers.coordinates.components(coefficients, np.eye(3))
    a, b, c, d = answers.comparisons[3:9].T
    mapped = answers.Y @ L.T
    margins = ((mapped[c] - mapped[d]) ** 2 - (mapped[a] - mapped[b]) ** 2).sum(axis=1)
    assert np.allclose(features @ coefficients, margins)


@pytest.mark.parametrize("seed", range(10))
def test_objective_never_rises(seed):
    rng = np.random.default_rng(seed)
    n, n_persons = 60, 6
    bounds = np.concatenate([[0], np.sort(rng.permutation(n - 1)[: n_persons - 1]) + 1, [n]])
    comparisons = np.array([rng.permutation(9)[:4] for _ in range(n)])
    given = Answers(
        Coordinates(2, seed % 2),
        rng.normal(size=(9, 2 + seed % 2)),
        comparisons,
        np.ones(n),
        bounds,
    )
    start = Prior.around(given.coordinates.identity(), 0.5)
    if seed % 3:
        means = start.means + rng.normal(size=(3, given.coordinates.size))
        start = Prior(means, np.full(3, 1 / 3), start.covariance, start.before)
    _, _, history = fit_persons(given, start, max_iter=50, tol=0.0)
    assert np.all(np.diff(history) <= 1e-9 * np.abs(history[:-1]))
    assert history[-1] < history[0]


def test_prior_is_at_its_minimum(answers, prior):
    posterior = update_persons(answers, prior, np.ones(17), np.tile(prior.shares, (3, 1)))
    best = update_prior(prior, posterior)
    lowest = objective(best, posterior)
    rng = np.random.default_rng(2)
    for _ in range(20):
        means = best.means + 0.01 * rng.normal(size=(2, 4))
        change = 0.02 * rng.normal(size=(4, 4))
        covariance = best.covariance + (change + change.T) * np.sqrt(
            np.outer(best.covariance.diagonal(), best.covariance.diagonal())
        )
        shares = best.shares * np.exp(0.05 * rng.normal(size=2))
        other = Prior(means, shares / shares.sum(), covariance, best.before)
        assert objective(other, posterior) > lowest


@pytest.fixture(scope="module")
def crowd():
    """Return two kinds of persons, who look at different features, with few and many answers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    T, who, kinds = [], [], {}
    for person in range(20):
        kind, n = person % 2, 25 if person < 10 else 150
        axes = np.diag([1.0, 0.2, 0.3]) if kind else np.diag([0.2, 1.0, 0.3])
        said, _ = make_triplets(X, n_triplets=n, components=axes, wrong=0.1, random_state=person)
        name = f"p{person:02}"
        T.append(said)
        who += [name] * n
        kinds[name] = kind
    return X, np.concatenate(T), np.array(who), kinds


@pytest.fixture(scope="module")
def fitted(crowd):
    X, T, who, _ = crowd
    return PersonalMetrics().fit(X, triplets=T, who=who)


def test_persons_are_told_apart(crowd, fitted):
    X, _, _, kinds = crowd
    fresh, who = [], []
    for name, kind in kinds.items():
        axes = np.diag([1.0, 0.2, 0.3]) if kind else np.diag([0.2, 1.0, 0.3])
        said, _ = make_triplets(X, n_triplets=100, components=axes, random_state=100)
        fresh.append(said)
        who += [name] * 100
    fresh = np.concatenate(fresh)
    assert fitted.score_triplets(X, fresh, who=who) > fitted.score_triplets(X, fresh) + 0.1
    assert len(fitted.group_shares_) == 2
    found = fitted.group_of_person_ == fitted.group_of_person_[0]
    assert np.array_equal(found, [kind == kinds["p00"] for kind in kinds.values()])


def test_few_answers_are_drawn_to_the_group(fitted):
    assert np.all((fitted.shrinkage_ > 0.0) & (fitted.shrinkage_ <= 1.0))
    assert fitted.shrinkage_[:10].min() > fitted.shrinkage_[10:].max()


def test_new_persons_start_with_what_all_share(crowd, fitted):
    X = crowd[0]
    shared = fitted.transform(X)
    assert np.array_equal(fitted.transform(X, who="nobody"), shared)
    assert not np.allclose(fitted.transform(X, who="p00"), shared)


def test_added_person_is_like_one_who_was_there(crowd, fitted):
    X, T, who, _ = crowd
    own = who == "p13"
    again = clone(fitted).set_params(n_groups=2).fit(X, triplets=T, who=who)
    again.add_persons(X, triplets=T[own], who=np.full(own.sum(), "zoe"))
    assert again.persons_.tolist() == [*fitted.persons_, "zoe"]
    assert np.allclose(again.coefficients_[-1], again.coefficients_[13], rtol=0.02, atol=0.02)
    assert np.array_equal(again.coefficients_[:-1], fitted.coefficients_)


def test_order_does_not_matter(crowd):
    X, T, who, _ = crowd
    mixed = np.random.default_rng(0).permutation(len(T))
    metric = Euclidean().fit(X)
    one = PersonalMetrics(metric, n_groups=1).fit(X, triplets=T, who=who)
    other = PersonalMetrics(metric, n_groups=1).fit(X, triplets=T[mixed], who=who[mixed])
    assert np.allclose(one.coefficients_, other.coefficients_, rtol=1e-6, atol=1e-8)


def test_weight_two_is_an_answer_given_twice(crowd):
    X, T, who, _ = crowd
    twice, weights = np.arange(0, len(T), 3), np.ones(len(T))
    weights[twice] = 2.0
    both = np.concatenate([np.arange(len(T)), twice])
    options = {"n_groups": 1, "tol": 0.0, "max_iter": 20}
    one = PersonalMetrics(Euclidean(), **options).fit(
        X, triplets=T, constraint_weight=weights, who=who
    )
    other = PersonalMetrics(Euclidean(), **options).fit(X, triplets=T[both], who=who[both])
    # The unit at the start is that of the answers: it differs, and twenty rounds nearly forget it.
    assert np.allclose(one.coefficients_, other.coefficients_, rtol=1e-2, atol=1e-2)


def test_metric_of_a_person_is_a_model_of_its_own(crowd, fitted, tmp_path):
    import mdaml

    X, T, who, _ = crowd
    own = fitted.metric_for("p11")
    assert isinstance(own, MDaML)
    own.save(tmp_path / "p11.mdaml")
    mapped = mdaml.load(tmp_path / "p11.mdaml").transform(X)
    assert np.array_equal(mapped, fitted.transform(X, who="p11"))
    some = T[who == "p11"]
    assert own.score_triplets(X, some) == fitted.score_triplets(X, some, who="p11")


def test_metric_is_not_negative_even_where_answers_ask_for_it():
    coordinates = Coordinates(2, 0)
    L = coordinates.components(np.array([1.0, 3.0, 0.5]), np.eye(2))
    S = np.array([[1.0, 3.0 / np.sqrt(2)], [3.0 / np.sqrt(2), 0.5]])
    values, axes = np.linalg.eigh(S)
    assert values[0] < 0
    assert np.allclose(L.T @ L, values[1] * np.outer(axes[:, 1], axes[:, 1]))


def test_quadruplets_and_constraints_are_taken(crowd):
    X, T, who, _ = crowd
    by_triplets = PersonalMetrics(Euclidean(), n_groups=1).fit(X, triplets=T, who=who)
    quadruplets = Constraints(quadruplets=T[:, [0, 1, 0, 2]])
    other = PersonalMetrics(Euclidean(), n_groups=1).fit(X, constraints=quadruplets, who=who)
    assert np.allclose(by_triplets.coefficients_, other.coefficients_)


def test_bad_input_is_refused(crowd):
    X, T, who, _ = crowd
    model = PersonalMetrics(Euclidean())
    with pytest.raises(ValueError, match="needs who="):
        model.fit(X, triplets=T)
    with pytest.raises(ValueError, match=r"who must hold one .* 1750 comparisons"):
        model.fit(X, triplets=T, who=who[:-1])
    with pytest.raises(TypeError, match=r"got nan among them"):
        model.fit(X, triplets=T, who=np.where(who == "p00", np.nan, 1.0))
    said = Constraints(triplets=T, pairs=[[0, 1]], pair_labels=[1])
    with pytest.raises(ValueError, match="got pairs"):
        model.fit(X, constraints=said, who=[*who, "p00"])
    with pytest.raises(TypeError, match="must be a metric of mdaml"):
        PersonalMetrics(3).fit(X, triplets=T, who=who)
    with pytest.raises(ValueError, match="at most the number of persons, which is 20"):
        PersonalMetrics(KISSME(), n_groups=21).fit(X, triplets=T, who=who)
    with pytest.raises(NotFittedError):
        model.transform(X)
    fitted = model.fit(X, triplets=T, who=who)
    with pytest.raises(TypeError, match=r"who must be a name like those of fit, such as .*'p00'"):
        fitted.transform(X, who=3)


@pytest.mark.slow
def test_ten_thousand_persons_take_bounded_memory():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 8))
    n = 10_000 * 8
    a = rng.integers(200, size=n)
    T = np.column_stack([a, a + rng.integers(1, 100, size=n), a + rng.integers(100, 200, size=n)])
    T %= 200
    near, far = (((X[T[:, 0]] - X[T[:, k]]) ** 2).sum(axis=1) for k in (1, 2))
    T[near > far] = T[near > far][:, [0, 2, 1]]
    model = PersonalMetrics(Euclidean(), n_groups=1, max_iter=1)
    tracemalloc.start()
    with pytest.warns(UserWarning, match="Metrics of single persons are worse"):  # all agree
        model.fit(X, triplets=T, who=np.arange(n) % 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.coefficients_.shape == (10_000, 11)
    assert peak < 150e6


def test_the_number_1_and_the_text_1_are_never_one_person():
    X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
    for who, other in ((["1", "2"], [1, 5]), ([1, 2], ["1", "5"])):
        model = PersonalMetrics(Euclidean(), n_groups=1).fit(X, triplets=T, who=who)
        before = model.coefficients_.copy()
        with pytest.raises(TypeError, match="who must be a name like those of fit"):
            model.add_persons(X, triplets=T, who=other)
        assert model.persons_.tolist() == who
        assert np.array_equal(model.coefficients_, before)
        with pytest.raises(TypeError, match="who must be a name like those of fit"):
            model.metric_for(other[0])
        with pytest.raises(TypeError, match="who must be a name like those of fit"):
            model.score_triplets(X, T, who=other)
    with pytest.raises(TypeError, match="the number 1 and the text '1'"):
        PersonalMetrics(Euclidean()).fit(X, triplets=T, who=[1, "1"])


# Whether persons get metrics of their own is chosen on held-out answers.


def toss(seed, n=400, n_persons=5):
    """Return samples, coin flips, and who threw them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 6))
    said, _ = make_triplets(X, n_triplets=n, wrong=0.5, random_state=seed)
    return X, said, rng.integers(n_persons, size=n)


def check_coin_flips(seeds):
    """Return in how many cases everybody keeps the shared metric; a warning says so."""
    kept = 0
    for seed in seeds:
        X, said, who = toss(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PersonalMetrics().fit(X, triplets=said, who=who)
        heard = [str(each.message) for each in caught]
        assert model.start_kept_ == any(
            text.startswith("Nothing was learned of single persons") for text in heard
        )
        assert model.gain_["is_beyond_chance"] is not model.start_kept_
        if model.start_kept_:
            for person in (*model.persons_, None, 77):
                own = model.metric_for(person).components_
                np.testing.assert_array_equal(own, model.metric_.components_)
        kept += model.start_kept_
    return kept


def test_coin_flips_give_nobody_a_metric_of_their_own():
    assert check_coin_flips(range(6)) >= 5


@pytest.mark.slow
def test_coin_flips_give_nobody_a_metric_of_their_own_in_95_of_100():
    assert check_coin_flips(range(100)) >= 95


@pytest.mark.filterwarnings("ignore:Nothing was learned of single persons")
def test_persons_who_agree_share_a_metric_and_so_do_new_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    said, _ = make_triplets(
        X, n_triplets=800, components=np.diag([2, 1, 0.3, 0.3]), wrong=0.1, random_state=0
    )
    model = PersonalMetrics().fit(X, triplets=said, who=rng.integers(10, size=800))
    assert model.start_kept_
    assert not model.metric_.start_kept_
    assert np.all(model.shrinkage_ == 1.0)
    assert model.group_shares_.tolist() == [1.0]
    model.add_persons(X, triplets=said[:50], who=np.full(50, 99))
    assert model.persons_[-1] == 99
    shared = model.metric_.components_
    for person in (3, 99, None):
        np.testing.assert_array_equal(model.metric_for(person).components_, shared)


def test_the_gain_of_own_metrics_is_measured_on_held_out_answers(crowd, fitted):
    X, _, _, kinds = crowd
    assert not fitted.start_kept_
    gain = fitted.gain_
    assert gain["is_beyond_chance"]
    assert 0.0 < gain["low"] < gain["after"] - gain["before"] < gain["high"]
    fresh, who = [], []
    for place, (name, kind) in enumerate(kinds.items()):
        axes = np.diag([1.0, 0.2, 0.3]) if kind else np.diag([0.2, 1.0, 0.3])
        n = 25 if place < 10 else 150
        said, _ = make_triplets(X, n_triplets=n, components=axes, wrong=0.1, random_state=500)
        fresh.append(said)
        who += [name] * n
    assert gain["after"] == pytest.approx(
        fitted.score_triplets(X, np.concatenate(fresh), who=who), abs=0.04
    )


def test_answers_given_twice_do_not_change_the_choice(crowd):
    X, T, who, _ = crowd
    for said, persons in ((T, who), toss(0)[1:]):
        samples = X if said is T else toss(0)[0]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned of single persons")
            once, twice = (
                PersonalMetrics(Euclidean()).fit(
                    samples, triplets=np.tile(said, (n, 1)), who=np.tile(persons, n)
                )
                for n in (1, 2)
            )
        assert twice.start_kept_ == once.start_kept_
        assert twice.gain_["n_units"] == once.gain_["n_units"]


def test_a_number_of_groups_is_used_in_any_case_and_warned_of():
    """All persons answer by Euclidean distance; one round hardly draws them together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    said, _ = make_triplets(X, n_triplets=2500, random_state=0)
    with pytest.warns(UserWarning, match="Metrics of single persons are worse than the shared"):
        model = PersonalMetrics(Euclidean(), n_groups=1, max_iter=1).fit(
            X, triplets=said, who=rng.integers(300, size=2500)
        )
    assert not model.start_kept_
    assert model.gain_["high"] < 0.0
