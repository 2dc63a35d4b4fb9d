"""Kinds of people: the objective and its descent, who is of which kind, and what is refused."""

import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import mdaml
from mdaml import KISSME, Constraints, Euclidean, LocalMDaML, MDaML
from mdaml.constraints.persons import Persons
from mdaml.datasets import make_triplets
from mdaml.people import PersonalMetrics
from mdaml.people._choice import warn_of_lone
from mdaml.people._coordinates import Coordinates
from mdaml.people._mixture import Heard, fit_kinds, fit_persons, improve


@pytest.fixture
def heard():
    """Return a few answers of four persons, in the coordinates of three axes."""
    rng = np.random.default_rng(0)
    Y, codes = rng.normal(size=(12, 3)), np.repeat([0, 1, 2, 3], [9, 3, 11, 7])
    asked = np.array([rng.permutation(12)[:4] for _ in range(30)])
    persons = Persons(np.arange(4), codes)
    coordinates = Coordinates.of(Y, asked)
    features = coordinates.features(Y, asked)
    return coordinates, Y, asked, Heard.of(features, rng.uniform(0.5, 2.0, 30), persons)


def literal_objective(heard, center, kinds):
    """Return minus the log posterior, with loops."""
    value = 0.0
    for p, error in enumerate(kinds.errors):
        total = 0.0
        for share, b in zip(kinds.shares, kinds.coefficients, strict=True):
            chance = share
            for f, w in zip(
                heard.features[heard.persons.codes == p],
                heard.weights[heard.persons.codes == p],
                strict=True,
            ):
                right = expit(f @ b)
                chance *= ((1 - error) * right + error * (1 - right)) ** w
            total += chance
        value -= np.log(total) + 2 * np.log(error) + 18 * np.log(1 - error)
    return value + 0.5 * np.sum((kinds.coefficients - center) ** 2)


def test_objective_is_that_of_the_loops(heard):
    coordinates, _, _, answers = heard
    center = coordinates.given(2.0)
    kinds = fit_kinds(answers, center, 2, n_starts=2, max_iter=3)
    assert kinds.history[-1] == pytest.approx(literal_objective(answers, center, kinds), rel=1e-10)


@pytest.mark.parametrize("n_kinds", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_objective_never_rises(seed, n_kinds):
    rng = np.random.default_rng(seed)
    Y, codes = rng.normal(size=(15, 4)), rng.integers(6, size=120)
    asked = np.array([rng.permutation(15)[:4] for _ in range(120)])
    persons = Persons.from_who(codes, 120)
    coordinates = Coordinates.of(Y, asked)
    given = Heard.of(coordinates.features(Y, asked), rng.uniform(0.1, 3.0, 120), persons)
    center = coordinates.given(1.0)
    kinds = fit_kinds(given, center, n_kinds, n_starts=1, max_iter=5)
    kinds = improve(given, center, kinds, 30, tol=0.0)
    assert np.all(np.diff(kinds.history) <= 1e-9 * np.abs(kinds.history[0]))
    assert np.allclose(kinds.of_person.sum(axis=1), 1.0)


@pytest.mark.parametrize("seed", [3, 7])
def test_few_answers_end_no_higher_than_from_the_true_kinds(seed):
    """With eight starts, of which one goes on, the second ends 5 above."""
    rng = np.random.default_rng(seed)
    X, eye, kinds = rng.normal(size=(60, 6)), np.eye(6), np.arange(15) % 3
    drawn = [
        {"components": eye[[0, 1, 2 + kind]], "random_state": 100 * seed + person}
        for person, kind in enumerate(kinds)
    ]
    supervision = [make_triplets(X, n_triplets=30, wrong=0.1, **options)[0] for options in drawn]
    asked = np.concatenate(supervision)[:, [0, 1, 0, 2]]
    persons = Persons(np.arange(15), np.repeat(np.arange(15), 30))
    coordinates = Coordinates.of(X, asked)
    given = Heard.of(coordinates.features(X, asked), np.ones(len(asked)), persons)
    center = coordinates.given(1.0)
    one = fit_kinds(given, center, 1)
    true = replace(one, coefficients=np.tile(one.coefficients, (3, 1)), shares=np.full(3, 1 / 3))
    true = replace(true, of_person=0.9 * np.eye(3)[kinds] + 0.1 / 3, history=())
    found = fit_kinds(given, center, 3)
    assert found.history[-1] <= improve(given, center, true, 50).history[-1]


def test_margins_are_products_of_features_and_coefficients(heard):
    coordinates, Y, asked, _ = heard
    b = np.concatenate([[2.0], np.random.default_rng(1).normal(size=coordinates.size - 1) * 0.1])
    mapped = Y @ coordinates.components(b, np.eye(3)).T
    a, p, c, d = asked.T
    margins = ((mapped[c] - mapped[d]) ** 2 - (mapped[a] - mapped[p]) ** 2).sum(axis=1)
    assert np.allclose(coordinates.features(Y, asked) @ b, margins)


def test_what_is_negative_is_cut_off(heard):
    coordinates, Y, asked, _ = heard
    b = np.random.default_rng(1).normal(size=(5, coordinates.size))
    features = coordinates.features(Y, asked)
    a, p, c, d = asked.T
    for raw, cut in zip(b, coordinates.cut(b), strict=True):
        mapped = Y @ coordinates.components(raw, np.eye(3)).T
        margins = ((mapped[c] - mapped[d]) ** 2 - (mapped[a] - mapped[p]) ** 2).sum(axis=1)
        assert np.allclose(features @ cut, margins)
    assert not np.allclose(b, coordinates.cut(b))


def test_kinds_differ_in_the_directions_that_matter_among_many_features():
    rng = np.random.default_rng(0)
    X, supervision, who = rng.normal(size=(80, 30)), [], np.repeat(np.arange(12), 200)
    for person in range(12):
        axes = np.eye(30)[[0, 20 + person % 2]]
        supervision.append(
            make_triplets(X, n_triplets=200, components=axes, random_state=person)[0]
        )
    T = np.concatenate(supervision)
    model = PersonalMetrics(Euclidean(), n_kinds=2, pull=None).fit(X, triplets=T, who=who)
    assert model.axes_.shape == (30, 12)
    assert len(set(zip(np.arange(12) % 2, model.kind_of_person_, strict=True))) == 2


def test_a_strong_pull_keeps_persons_at_their_kinds(heard):
    coordinates, _, _, answers = heard
    kinds = fit_kinds(answers, coordinates.given(1.0), 2, n_starts=2)
    near, far = (fit_persons(answers, kinds, pull) for pull in (1e6, 0.1))
    assert np.allclose(near, kinds.own, atol=1e-4)
    assert np.linalg.norm(far - kinds.own) > 0.1


@pytest.fixture(scope="module")
def crowd():
    """Return two kinds of people, who look at different features, with few and many answers."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    T, who, kinds = [], [], {}
    for person in range(20):
        kind, n = person % 2, 25 if person < 10 else 150
        axes = np.diag([1.0, 0.2, 0.3]) if kind else np.diag([0.2, 1.0, 0.3])
        supervision, _ = make_triplets(
            X, n_triplets=n, components=axes, wrong=0.1, random_state=person
        )
        name = f"p{person:02}"
        T.append(supervision)
        who += [name] * n
        kinds[name] = kind
    return X, np.concatenate(T), np.array(who), kinds


def draw_fresh(X, kinds, n):
    """Return right answers that were not learned from, n of each person, and who gave them."""
    fresh = []
    for kind in kinds.values():
        axes = np.diag([1.0, 0.2, 0.3]) if kind else np.diag([0.2, 1.0, 0.3])
        fresh.append(make_triplets(X, n_triplets=n, components=axes, random_state=100)[0])
    return np.concatenate(fresh), np.repeat(list(kinds), n)


@pytest.fixture(scope="module")
def fitted(crowd):
    X, T, who, _ = crowd
    return PersonalMetrics().fit(X, triplets=T, who=who)


def test_persons_are_told_apart(crowd, fitted):
    X, _, _, kinds = crowd
    fresh, who = draw_fresh(X, kinds, 100)
    assert fitted.score_triplets(X, fresh, who=who) > fitted.score_triplets(X, fresh) + 0.1
    assert fitted.n_kinds_ == 2
    found = fitted.kind_of_person_ == fitted.kind_of_person_[0]
    assert np.array_equal(found, [kind == kinds["p00"] for kind in kinds.values()])
    assert np.allclose(fitted.kind_shares_, 0.5, atol=0.05)


def test_the_summary_says_what_was_tried_and_gained(crowd, fitted, tmp_path):
    text = fitted.summary()
    n = len(fitted.persons_)
    assert text.startswith(f"PersonalMetrics: {n} persons, 2 kinds ({n // 2}, {n // 2} persons)")
    assert f"  kinds 2, pull none: {fitted.gain_['after']:.1%}  (chosen)" in text
    assert f"{fitted.gain_['before']:.1%} hold under the shared metric" in text
    assert text.endswith("This is more than chance.")
    counted = clone(fitted)
    counted.__dict__ |= fitted.__dict__ | {"gain_": fitted.gain_ | {"low": -0.01}}
    assert counted.summary().endswith("by the test that decides, although the interval contains 0.")
    fitted.save(tmp_path / "people.mdaml")
    assert mdaml.load(tmp_path / "people.mdaml").summary() == text
    X, T, who, _ = crowd
    few = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0).fit(X, triplets=T[:2], who=who[:2])
    assert "was not measured" in few.summary()


def test_kinds_are_metrics_of_their_own(crowd, fitted, tmp_path):
    X, T, who, _ = crowd
    kinds = fitted.kinds_
    assert [type(kind) for kind in kinds] == [MDaML, MDaML]
    for number, kind in enumerate(kinds):
        assert np.array_equal(kind.transform(X), fitted.transform(X, kind=number))
    kinds[0].save(tmp_path / "kind.mdaml")
    assert np.array_equal(mdaml.load(tmp_path / "kind.mdaml").transform(X), kinds[0].transform(X))
    own = fitted.metric_for("p11")
    some = T[who == "p11"]
    assert own.score_triplets(X, some) == fitted.score_triplets(X, some, who="p11")
    with pytest.raises(ValueError, match="kind must be below 2"):
        fitted.transform(X, kind=2)
    with pytest.raises(ValueError, match="either who or kind"):
        fitted.transform(X, "p00", kind=1)


def test_a_kind_does_not_claim_what_the_shared_metric_gained(fitted):
    assert fitted.metric_.gain_ is not None
    for metric in (*fitted.kinds_, fitted.metric_for("p03")):
        assert "The gain was not measured" in metric.summary()
        assert not metric.start_kept_
    assert fitted.metric_.gain_ is not None


def test_saved_model_is_the_same(crowd, fitted, tmp_path):
    X, T, who, _ = crowd
    fitted.save(tmp_path / "people.mdaml")
    again = mdaml.load(tmp_path / "people.mdaml")
    for given in ({}, {"who": "p03"}, {"who": "nobody"}, {"kind": 1}):
        assert np.array_equal(again.transform(X, **given), fitted.transform(X, **given))
    assert np.array_equal(again.kind_of_person_, fitted.kind_of_person_)
    assert again.score_triplets(X, T, who=who) == fitted.score_triplets(X, T, who=who)


def test_a_new_person_is_placed_by_a_few_answers(crowd, fitted):
    X, T, who, kinds = crowd
    for name in ("p12", "p13"):
        some = T[who == name][:40]
        probabilities = fitted.place(X, triplets=some)
        assert probabilities.sum() == pytest.approx(1.0)
        assert probabilities.argmax() == fitted.kind_of_person_[list(kinds).index(name)]
        assert probabilities.max() > 0.95
    assert fitted.persons_.tolist() == list(kinds)


def test_who_is_not_known_has_the_mean_of_the_kinds(crowd, fitted):
    X = crowd[0]
    unknown = fitted.transform(X, who="nobody")
    assert not np.allclose(fitted.transform(X, who="p00"), unknown)
    M = fitted.metric_for("nobody").get_mahalanobis_matrix()
    parts = [kind.get_mahalanobis_matrix() for kind in fitted.kinds_]
    mean = np.tensordot(fitted.kind_shares_, parts, 1)
    assert np.allclose(M, mean, atol=0.05 * np.abs(mean).max())


def test_added_person_is_like_one_who_was_there(crowd, fitted):
    X, T, who, _ = crowd
    own = who == "p13"
    again = clone(fitted).set_params(n_kinds=2).fit(X, triplets=T, who=who)
    before = again.coefficients_.copy()
    again.add_persons(X, triplets=T[own], who=np.full(own.sum(), "zoe"))
    assert again.persons_.tolist() == [*fitted.persons_, "zoe"]
    assert again.kind_of_person_[-1] == again.kind_of_person_[13]
    assert np.allclose(again.coefficients_[-1], before[13], rtol=0.02, atol=0.05)
    assert np.array_equal(again.coefficients_[:-1], before)


def test_order_does_not_matter(crowd):
    X, T, who, _ = crowd
    mixed = np.random.default_rng(0).permutation(len(T))
    metric = Euclidean().fit(X)
    one = PersonalMetrics(metric, n_kinds=1, pull=1.0).fit(X, triplets=T, who=who)
    other = PersonalMetrics(metric, n_kinds=1, pull=1.0).fit(X, triplets=T[mixed], who=who[mixed])
    np.testing.assert_allclose(one.coefficients_, other.coefficients_, rtol=1e-4, atol=1e-6)


def test_quadruplets_and_constraints_are_taken(crowd):
    X, T, who, _ = crowd
    options = {"n_kinds": 1, "pull": 1.0}
    by_triplets = PersonalMetrics(Euclidean(), **options).fit(X, triplets=T, who=who)
    supervision = Constraints(quadruplets=T[:, [0, 1, 0, 2]], columns={"who": who})
    other = PersonalMetrics(Euclidean(), **options).fit(X, constraints=supervision, who="who")
    assert np.allclose(by_triplets.coefficients_, other.coefficients_)


def test_every_form_of_answer_is_scored_by_the_metric_of_who_gave_it(crowd, fitted):
    """Each score of two persons is the mean of their own, of forms that are means."""
    X = crowd[0]
    rng = np.random.default_rng(3)
    rows = np.array([rng.permutation(50)[:5] for _ in range(40)])
    who = np.repeat(["p10", "p11"], 20)
    forms = {
        "score_triplets": (rows[:, :3],),
        "score_quadruplets": (rows[:, :4],),
        "score_odd_one_out": (rows[:, :3], rows[:, 0]),
        "score_picks": (rows[:, 0], rows[:, 1:], rows[:, 1:3]),
        "score_rankings": (rows[:, 0], rows[:, 1:]),
        "score_votes": (rows[:, :3], np.tile([2, 1], (40, 1))),
        "score_grades": (rows[:, :2], rng.integers(1, 8, 40)),
        "score_positives": (rows[:, :2],),
    }
    for name, given in forms.items():
        both = getattr(fitted, name)(X, *given, who=who)
        each = [
            getattr(fitted.metric_for(person), name)(X, *(part[who == person] for part in given))
            for person in ("p10", "p11")
        ]
        assert both == pytest.approx(np.mean(each)), name
        assert getattr(fitted, name)(X, *(p[:20] for p in given), who="p10") == each[0]
        shared = getattr(fitted.metric_, name)(X, *given)
        assert getattr(fitted, name)(X, *given) == shared
    labels = rng.choice([1, -1], 40)
    own = fitted.score_pairs(X, rows[:20, :2], labels[:20], who=who[:20])
    assert own == fitted.metric_for("p10").score_pairs(X, rows[:20, :2], labels[:20])
    with pytest.raises(ValueError, match="name row 77, but X has 50 rows"):
        fitted.score_triplets(X, [[0, 1, 77]], who=["p10"])


@pytest.mark.slow
def test_places_of_modes_are_shared_by_the_kinds(crowd):
    X, T, who, kinds = crowd
    model = PersonalMetrics(LocalMDaML(n_places=8, n_maps=0), n_kinds=2, pull=None)
    model.fit(X, triplets=T, who=who)
    assert [kind.n_places_ for kind in model.kinds_] == [8, 8]
    assert len(set(zip(kinds.values(), model.kind_of_person_.tolist(), strict=True))) == 2


def test_bad_input_is_refused(crowd):
    X, T, who, _ = crowd
    model = PersonalMetrics(Euclidean())
    with pytest.raises(ValueError, match="needs who="):
        model.fit(X, triplets=T)
    with pytest.raises(ValueError, match=r"who must hold one .* 1750 comparisons"):
        model.fit(X, triplets=T, who=who[:-1])
    with pytest.raises(TypeError, match=r"got nan among them"):
        model.fit(X, triplets=T, who=np.where(who == "p00", np.nan, 1.0))
    supervision = Constraints(triplets=T, pairs=[[0, 1]], pair_labels=[1])
    with pytest.raises(ValueError, match="got pairs"):
        model.fit(X, constraints=supervision, who=[*who, "p00"])
    with pytest.raises(TypeError, match="must be a metric of mdaml"):
        PersonalMetrics(3).fit(X, triplets=T, who=who)
    with pytest.raises(ValueError, match="at most the number of persons, which is 20"):
        PersonalMetrics(KISSME(), n_kinds=21).fit(X, triplets=T, who=who)
    with pytest.raises(ValueError, match="greater than 0"):
        PersonalMetrics(pull=0.0).fit(X, triplets=T, who=who)
    with pytest.raises(NotFittedError):
        model.transform(X)
    fitted = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0).fit(X, triplets=T, who=who)
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
    model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
    tracemalloc.start()
    with pytest.warns(UserWarning, match="Metrics of persons are worse"):  # all agree
        model.fit(X, triplets=T, who=np.arange(n) % 10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert model.coefficients_.shape == (10_000, 37)
    assert peak < 400e6


def test_the_number_1_and_the_text_1_are_never_one_person():
    X, T = [[0.0, 0.0], [1.0, 0.0], [0.0, 2.0]], [[0, 1, 2], [1, 0, 2]]
    for who, other in ((["1", "2"], [1, 5]), ([1, 2], ["1", "5"])):
        model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0).fit(X, triplets=T, who=who)
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
    supervision, _ = make_triplets(X, n_triplets=n, wrong=0.5, random_state=seed)
    return X, supervision, rng.integers(n_persons, size=n)


def check_coin_flips(seeds):
    """Return in how many cases everybody keeps the shared metric; a warning says so."""
    kept = 0
    for seed in seeds:
        X, supervision, who = toss(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = PersonalMetrics().fit(X, triplets=supervision, who=who)
        heard = [str(each.message) for each in caught]
        assert model.start_kept_ == any(
            text.startswith("Nothing was learned about single persons") for text in heard
        )
        assert model.gain_["is_beyond_chance"] is not model.start_kept_
        if model.start_kept_:
            for person in (*model.persons_, None, 77):
                own = model.metric_for(person).components_
                np.testing.assert_array_equal(own, model.metric_.components_)
        kept += model.start_kept_
    return kept


def test_coin_flips_give_nobody_a_metric_of_their_own():
    assert check_coin_flips([0]) == 1  # a hundred below


@pytest.mark.slow
def test_nothing_is_taken_under_which_fewer_held_out_answers_hold():
    # Losses of these coin flips lead by more than chance, and two in a hundred fewer hold.
    assert check_coin_flips([55]) == 1


@pytest.mark.slow
def test_coin_flips_give_nobody_a_metric_of_their_own_in_95_of_100():
    assert check_coin_flips(range(100)) >= 95


@pytest.mark.filterwarnings("ignore:Nothing was learned about single persons")
def test_persons_who_agree_share_a_metric_and_so_do_new_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    supervision, _ = make_triplets(
        X, n_triplets=800, components=np.diag([2, 1, 0.3, 0.3]), wrong=0.1, random_state=0
    )
    model = PersonalMetrics().fit(X, triplets=supervision, who=rng.integers(10, size=800))
    assert model.start_kept_
    assert not model.metric_.start_kept_
    assert model.n_kinds_ == 1
    assert model.pull_ is None
    assert model.kind_shares_.tolist() == [1.0]
    model.add_persons(X, triplets=supervision[:50], who=np.full(50, 99))
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
        supervision, _ = make_triplets(
            X, n_triplets=n, components=axes, wrong=0.1, random_state=500
        )
        fresh.append(supervision)
        who += [name] * n
    assert gain["after"] == pytest.approx(
        fitted.score_triplets(X, np.concatenate(fresh), who=who), abs=0.04
    )


@pytest.mark.slow
def test_answers_given_twice_do_not_change_the_choice(crowd):
    X, T, who, _ = crowd
    few = who >= "p16"  # four persons
    for samples, supervision, persons in ((X, T[few], who[few]), toss(0)):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Nothing was learned about single persons")
            once, twice = (
                PersonalMetrics(Euclidean()).fit(
                    samples, triplets=np.tile(supervision, (n, 1)), who=np.tile(persons, n)
                )
                for n in (1, 2)
            )
        assert twice.start_kept_ == once.start_kept_
        assert twice.gain_["n_units"] == once.gain_["n_units"]


def test_a_number_of_groups_is_used_in_any_case_and_warned_of():
    """All persons answer by Euclidean distance; one round hardly draws them together."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    supervision, _ = make_triplets(X, n_triplets=2500, random_state=0)
    with pytest.warns(UserWarning, match="Metrics of persons are worse than the shared"):
        model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0).fit(
            X, triplets=supervision, who=rng.integers(300, size=2500)
        )
    assert not model.start_kept_
    assert model.gain_["high"] < 0.0


@pytest.mark.parametrize("n_persons", [1, 2, 3, 4])
def test_few_persons_are_no_reason_to_fail(n_persons):
    X, T = np.random.default_rng(0).normal(size=(40, 3)), []
    for seed in range(n_persons):
        axes = np.diag(np.roll([1.0, 0.1, 0.1], seed))
        T.append(make_triplets(X, n_triplets=120, components=axes, random_state=seed)[0])
    who = np.repeat([f"p{k}" for k in range(n_persons)], 120)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Nothing was learned about single persons")
        model = PersonalMetrics(Euclidean()).fit(X, triplets=np.concatenate(T), who=who)
    assert model.n_kinds_ <= max(1, n_persons // 2)
    assert len(mdaml.audit(Euclidean().fit(X), X, triplets=np.concatenate(T), who=who)) == n_persons


@pytest.mark.parametrize("factor", [1e-160, 1e160])
def test_samples_whose_distances_overflow_or_vanish_are_refused(crowd, factor):
    X, T, who, _ = crowd
    model = PersonalMetrics(Euclidean(), n_kinds=1, pull=1.0)
    with pytest.raises(ValueError, match="Scale the features"):
        model.fit(factor * X, triplets=T, who=who)
    assert not hasattr(model, "coefficients_")
    model.fit(X, triplets=T[:40], who=who[:40])
    before = model.coefficients_
    with pytest.raises(ValueError, match="Scale the features"):
        model.add_persons(factor * X, triplets=T[:9], who=["new"] * 9)
    assert model.coefficients_ is before


@pytest.mark.filterwarnings("ignore:Nothing was learned|Only 0.0%:UserWarning")
@pytest.mark.parametrize("parameters", [{}, {"n_kinds": 1, "pull": 1.0}])
def test_equal_samples_tell_nothing_of_persons(parameters):
    """Without a warning of NumPy that there is nothing to average."""
    supervision = np.random.default_rng(0).permuted(np.tile(np.arange(9), (60, 1)), axis=1)[:, :3]
    model = PersonalMetrics(Euclidean(), **parameters)
    model.fit(np.ones((9, 2)), triplets=supervision, who=supervision[:, 0] % 3)
    assert np.all(np.isfinite(model.transform(np.eye(2), who=0)))


def test_swapped_near_and_far_are_asked_about(crowd):
    X, T, who, _ = crowd
    few = who >= "p16"  # four persons
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = PersonalMetrics(Euclidean())
        model.fit(X, triplets=T[few][:, [0, 2, 1]], who=who[few])
    assert any("Are near and far swapped" in str(warning.message) for warning in caught)
    # Kinds that explain some of them lead a start of which most are the contrary.
    assert model.start_kept_
    for person in model.persons_:
        M = model.metric_for(person).get_mahalanobis_matrix()
        np.testing.assert_allclose(M, M[0, 0] * np.eye(3), atol=1e-9 * M[0, 0])


@pytest.mark.filterwarnings("default:Nothing was learned", "default:Metrics of single persons")
def test_a_kind_of_one_person_gets_a_warning():
    rng = np.random.default_rng(0)
    X, eye = rng.normal(size=(40, 3)), np.eye(3)
    axes = [eye[:1]] * 4 + [eye[1:2]]
    made = [
        make_triplets(X, n_triplets=60, components=own, random_state=p)[0]
        for p, own in enumerate(axes)
    ]
    T, who = np.concatenate(made), np.repeat(["ann", "bob", "cem", "dan", "eve"], 60)
    model = PersonalMetrics(Euclidean(), n_kinds=2, pull=None, n_starts=2)
    with pytest.warns(UserWarning, match=r"A kind of one person \(eve\) may be"):
        model.fit(X, triplets=T, who=who)
    assert np.bincount(model.kind_of_person_).tolist() == [4, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_lone(np.array(["ann"]), np.array([0]))


def test_many_kinds_of_one_person_are_named_by_three():
    names = np.array([f"p{n}" for n in range(6)])
    with pytest.warns(UserWarning, match=r"\(p2, p3, p4, …\)"):
        warn_of_lone(names, np.array([0, 0, 1, 2, 3, 4]))


def test_somebody_who_guesses_does_not_change_the_metrics_of_others():
    """A metric of their own that is small loses least of random answers, and would lead by that."""
    kept = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(80, 4))
        supervision, _ = make_triplets(X, n_triplets=200, wrong=0.1, random_state=seed)
        who = rng.integers(2, size=200)
        is_turned = (who == 0) & (rng.random(200) < 0.5)
        supervision = np.where(is_turned[:, None], supervision[:, [0, 2, 1]], supervision)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = PersonalMetrics().fit(X, triplets=supervision, who=who)
        kept += model.start_kept_
    assert kept >= 3
