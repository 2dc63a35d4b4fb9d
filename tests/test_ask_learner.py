"""The model learns beside the server, and the owner sees true figures."""

import sys
from collections import Counter

import numpy as np
import pytest
from ask_site import Browser, fit_stored, make_items, make_site

import mdaml
from mdaml.ask import Interview, learner, owner, persons
from mdaml.ask.fitting import ItemAxes, fit_whole, from_bytes
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import Learner
from mdaml.ask.mapping import describe_map, find_failures, list_mapped
from mdaml.ask.questions import Plan
from mdaml.constraints import Constraints
from mdaml.estimators import Euclidean, LocalMDaML, MDaML

pytestmark = pytest.mark.needs("pandas", "uvicorn")


@pytest.fixture
def site(tmp_path):
    made = make_site(tmp_path / "answers.db", make_items(40, 4))
    yield made
    made.close()


def answer(site, n, person="ann", error=0.0, seed=0, feature=0):
    """Answer as somebody who looks at one feature alone."""
    rng, events = np.random.default_rng(seed), []
    for k in range(n):
        question = site.collector.submit(person, events).result()["questions"][0]
        a, b, c = (site.items.X[site.items.rows[name]][feature] for name in question["items"])
        right = abs(a - b) < abs(a - c)
        choice = [1] if right != (rng.random() < error) else [2]
        event = {"id": f"{person} {seed} {k:03}", "question": question["id"], "seconds": 1.0}
        events = [event | {"outcome": "answer", "choice": choice}]
    site.collector.submit(person, events).result()


def answer_pairs(site, n, error):
    """Say which pairs are the same, by one feature and then perhaps wrong."""
    rng, events = np.random.default_rng(0), []
    for k in range(n):
        question = site.collector.submit("ann", events).result()["questions"][0]
        a, b = (site.items.X[site.items.rows[name]][0] for name in question["items"])
        same = (abs(a - b) < 1) != (rng.random() < error)
        event = {"id": f"answer {k:04}", "question": question["id"], "seconds": 1.0}
        events = [event | {"outcome": "answer", "choice": [int(same)]}]
    site.collector.submit("ann", events).result()


def load(site, tmp_path):
    path = tmp_path / "model.mdaml"
    path.write_bytes(site.storage.latest("model")["model"])
    return mdaml.load(path)


def test_a_model_is_learned_from_answers_and_can_be_loaded(site, tmp_path):
    answer(site, 80)
    learner_ = Learner(site.storage, site.items)
    assert learner_.step()
    assert not learner_.step()
    model = load(site, tmp_path)
    assert model.feature_names_in_.tolist() == ["x0", "x1", "x2", "x3"]
    weights = np.diag(model.get_mahalanobis_matrix())
    assert weights[0] > 2 * weights[1:].max()
    report = site.storage.latest("report")["report"]
    assert report["n_answers"] == 80
    (point,) = report["curve"]
    assert point[2] < point[1] <= point[3]
    assert point[1] > report["euclid"][0]
    assert report["n_held_out"] == 16


def test_new_questions_come_from_the_model_and_none_was_asked_before(site):
    answer(site, 40)
    Learner(site.storage, site.items).step()
    queries = site.storage.latest("queries")["queries"]
    assert len(queries) == 60
    asked = {(a["items"][0], *sorted(a["items"][1:])) for a in site.storage.answers()}
    assert not asked & {(a, *sorted((b, c))) for a, b, c in queries}
    answer(site, 20, seed=1)
    sources = [a["source"] for a in site.storage.answers()]
    assert "active" not in sources[:40]
    assert sources[43:].count("active") >= 8


def test_many_people_get_more_questions(site):
    learning = Learner(site.storage, site.items)
    answer(site, 10)
    learning.step()
    answer(site, 45, seed=1)
    learning.step()
    assert len(site.storage.latest("queries")["queries"]) == 90


def test_the_curve_keeps_early_models_and_scores_them_anew(site):
    learning = Learner(site.storage, site.items)
    for seed, n in enumerate((12, 12, 24, 48)):
        answer(site, n, seed=seed)
        learning.step()
    curve = site.storage.latest("report")["report"]["curve"]
    numbers = [point[0] for point in curve]
    assert numbers == sorted(set(numbers))
    assert len(numbers) >= 3
    assert len(site.storage.models()) <= 6


@pytest.mark.slow
def test_correct_answers_never_make_the_model_worse(tmp_path):
    rng = np.random.default_rng(0)
    items = make_items(300, 8)
    weights = np.exp(-np.arange(8.0))
    site = make_site(tmp_path / "answers.db", items, Plan(repeats=0))
    T = rng.integers(0, 300, (4000, 3))

    def agree(A):
        d = [np.sum((items.X[T[:, 0]] @ A - items.X[T[:, k]] @ A) ** 2, axis=1) for k in (1, 2)]
        return d[0] < d[1]

    truth = agree(np.diag(np.sqrt(weights)))
    learning, scores = Learner(site.storage, items, 0), []
    for n in (160, *[6] * 3):  # a good model, then a few answers each of six persons
        for k in range(n):
            person = f"person {(len(scores) + k) % 6}"
            question = site.collector.submit(person, []).result()["questions"][0]
            a, b, c = (items.X[items.rows[name]] for name in question["items"])
            choice = 1 if (a - b) ** 2 @ weights < (a - c) ** 2 @ weights else 2
            event = {"id": f"{len(scores):04}{k:08}", "question": question["id"], "seconds": 1}
            site.collector.submit(
                person, [event | {"outcome": "answer", "choice": [choice]}]
            ).result()
        learning.step()
        model = from_bytes(site.storage.latest("model")["model"])
        scores.append(np.mean(agree(model.components_.T) == truth))
    assert scores[0] > np.mean(agree(np.eye(8)) == truth) + 0.05
    assert min(scores[1:]) > scores[0] - 0.01
    site.close()


def test_slow_fits_are_made_rarely_and_at_last_for_all_answers(site, monkeypatch):
    fits = []

    def fit(space, supervision, _method):
        fits.append(supervision.n_constraints)
        clock[0] += 10.0
        return fit_whole(space, supervision)

    clock = [0.0]
    monkeypatch.setattr(learner, "fit_whole", fit)
    monkeypatch.setattr(learner.time, "monotonic", lambda: clock[0])
    answer(site, 100)
    learning = Learner(site.storage, site.items)
    learning.step()
    assert len(fits) == 1
    for seed in range(1, 5):  # 4 answers more within 40 seconds
        answer(site, 1, seed=seed)
        clock[0] += 10.0
        assert learning.step()
    assert len(fits) == 1
    assert not learning.step()
    answer(site, 20, seed=9)
    assert learning.step()
    assert len(fits) == 2
    answer(site, 1, seed=10)
    learning.step()
    clock[0] += 101.0
    assert learning.step()
    assert fits[2] == fits[1] + 1
    site.collector.submit("ann", [{"undo": "ann 10 000"}]).result()
    clock[0] += 11.0
    learning.step()
    assert fits[3] == fits[1]


def test_a_corrected_last_answer_is_learned(site, tmp_path):
    answer(site, 40)
    learning = Learner(site.storage, site.items, 0)
    learning.step()
    before = load(site, tmp_path).components_
    last = next(a for a in site.storage.answers()[::-1] if not a["held_out"])
    event = {"id": "corrected answer", "question": last["id"], "outcome": "answer", "seconds": 1}
    correction = [{"undo": last["answer"]}, event | {"choice": [3 - last["choice"][0]]}]
    assert site.collector.submit("ann", correction).result()["refused"] == []
    assert learning.step()
    after = load(site, tmp_path).components_
    assert not np.allclose(after, before)
    np.testing.assert_array_equal(after, fit_stored(site.storage, site.items))


def test_no_model_knows_an_answer_that_was_withdrawn(site):
    learning = Learner(site.storage, site.items, 0)
    for seed in range(4):
        answer(site, 10, seed=seed)
        learning.step()
    first = next(a["answer"] for a in site.storage.answers() if not a["held_out"])
    assert len(site.storage.models()) > 1
    site.collector.submit("ann", [{"undo": first}]).result()
    learning.step()
    (version,) = (row["version"] for row in site.storage.models())
    assert first not in site.storage.read_model(version)["answers"]


def test_a_model_that_held_out_answers_speak_against_is_not_served(site, monkeypatch):
    answer(site, 150)
    Learner(site.storage, site.items, 0).step()
    good = site.storage.latest("model")["model"]

    def forget(space, supervision, _method):
        model = fit_whole(space, supervision)
        model.components_ = np.diag([1e-3, 1.0, 1.0, 1.0])
        return model

    monkeypatch.setattr(learner, "fit_whole", forget)
    answer(site, 2, seed=1)
    Learner(site.storage, site.items, 0).step()  # as after a restart
    assert site.storage.latest("model")["model"] == good
    report = site.storage.latest("report")["report"]
    assert report["declined"]["n_answers"] > 100
    assert report["curve"][-1][1] > report["euclid"][0]


def test_a_model_that_cannot_be_read_is_learned_again(site, tmp_path):
    answer(site, 40)
    with site.storage.write(learned=True) as change:
        change.insert_model([], b"damaged")
    assert Learner(site.storage, site.items).step()
    assert load(site, tmp_path).n_features_in_ == 4
    assert len(site.storage.models()) == 1


def test_a_failure_of_the_learner_stands_on_the_owners_page(site):
    site.storage.note_failure("ValueError: no.")
    browser = Browser(site)
    assert browser.client.get("/api/owner").json()["failure"] == "ValueError: no."
    site.storage.note_failure(None)
    assert browser.client.get("/api/owner").json()["failure"] is None


def test_the_map_counts_the_answers_that_fail(site):
    answer(site, 60)
    answer(site, 6, "bob", error=1.0)
    Learner(site.storage, site.items, 0).step()
    report = site.storage.latest("report")["report"]
    model = from_bytes(site.storage.latest("model")["model"])
    Y, fails, asked = model.transform(site.items.X), Counter(), Counter()
    for supervision in site.storage.answers():
        a, b, c = (Y[site.items.rows[name]] for name in supervision["items"])
        holds = (np.sum((a - b) ** 2) < np.sum((a - c) ** 2)) == (supervision["choice"] == [1])
        asked.update(supervision["items"])
        fails.update([] if holds else supervision["items"])
    assert {name: n for name, _, _, n, _ in report["map"]} == {n: fails[n] for n in site.items.ids}
    assert {name: n for name, *_, n in report["map"]} == {n: asked[n] for n in site.items.ids}
    assert report["fails"] == [sum(fails.values()) // 3, 66]
    assert report["fails"][0] >= 4
    assert np.abs([place[1:3] for place in report["map"]]).max() <= 1


def test_of_many_items_the_map_shows_those_whose_answers_fail():
    n_fails, n_answers = np.zeros((2, 1000), int)
    n_answers[::10] = 2
    n_fails[500:530:10] = 1
    shown = list_mapped(n_fails, n_answers)
    assert len(shown) == 200
    assert {500, 510, 520} < set(shown)
    assert set(np.flatnonzero(n_answers)) <= set(shown)
    np.testing.assert_array_equal(shown, list_mapped(n_fails, n_answers))


@pytest.mark.parametrize("form", ["odd", "pick"])
def test_an_answer_of_several_comparisons_fails_if_half_of_them_do(form):
    X = np.array([[0.0], [1.0], [2.0], [10.0]])
    columns = {"question": ["q1", "q2"]}
    if form == "odd":
        supervision = Constraints.from_odd_one_out([[0, 1, 3], [0, 1, 3]], [3, 0], columns=columns)
    else:
        supervision = Constraints.from_picks([0, 0], [[1, 2, 3]] * 2, [[1], [3]], columns=columns)
    fails, _ = find_failures(Euclidean().fit(X), X, supervision)
    assert fails.tolist() == [False, True]


def test_a_map_is_not_turned_by_a_small_change_of_the_metric():
    X = np.random.default_rng(0).normal(size=(50, 4))
    plain, turned = Euclidean().fit(X), Euclidean().fit(X)
    plain.components_ = np.eye(4)
    turned.components_ = -np.linalg.qr(X[:4])[0]  # the same distances
    first, second = (describe_map(metric, plain, X, None)["map"] for metric in (plain, turned))
    np.testing.assert_allclose(np.array(first)[:, 1:3], np.array(second)[:, 1:3], atol=1e-3)


def test_an_undone_answer_is_forgotten(site):
    answer(site, 20)
    learning = Learner(site.storage, site.items)
    learning.step()
    site.collector.submit("ann", [{"undo": "ann 0 019"}]).result()
    assert learning.step()
    assert site.storage.latest("report")["report"]["n_answers"] == 19


def test_items_without_features_have_persons_only(tmp_path):
    items = Items([f"item {n}" for n in range(10)])
    site = make_site(tmp_path / "answers.db", items)
    Browser(site).answer()
    assert Learner(site.storage, items).step()
    latest = site.storage.latest("report", "queries")
    assert latest["report"]["persons"][0]["answers"] == 1
    assert latest["queries"] == []
    assert site.storage.latest("model") is None
    assert Browser(site).client.get("/owner/model.mdaml").status_code == 404
    site.close()


@pytest.mark.parametrize(
    "form",
    ["odd", pytest.param("same", marks=pytest.mark.slow), "pick"],  # compiles pairs
)
def test_every_form_teaches(tmp_path, form):
    items = make_items(30, 2)
    site = make_site(tmp_path / "answers.db", items, Plan(form=form, pick=1, show=3))
    browser = Browser(site)
    browser.send()
    for _ in range(25):
        question = site.storage.open_questions("ann")[0]
        x = np.array([items.X[items.rows[name]][0] for name in question["items"]])
        far = np.abs(x - np.median(x))
        choice = {"odd": far.argmax(), "same": abs(x[0] - x[1]) < 1, "pick": 0}[form]
        if form == "pick":
            choice = 1 + np.abs(x[1:] - x[0]).argmin()
        browser.answer([int(choice)])
    Learner(site.storage, items).step()
    assert load(site, tmp_path).components_.shape == (2, 2)
    site.close()


@pytest.mark.parametrize(
    ("features", "is_scaled"),
    [(["f1", "f2"], False), ([], False), (["age", "size"], True), (["age"], True)],
)
def test_features_with_names_are_scaled_and_numbered_ones_are_not(features, is_scaled):
    assert Items(list("abc"), features=tuple(features)).is_scaled is is_scaled
    assert Items(list("abc"), features=tuple(features), scale=True).is_scaled


@pytest.mark.parametrize("shape", [(20, 60), (200, 60), (30, 3)])
def test_the_wide_model_has_the_distances_of_the_learned_axes(shape):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape) * rng.uniform(0.5, 3, size=shape[1])
    space = ItemAxes.of(X, scaled=True)
    assert space.X.shape[1] == min(50, shape[0] - 1, shape[1])
    triplets = np.array([rng.permutation(shape[0])[:3] for _ in range(40)])
    model = mdaml.MDaML(anchor=0.1, random_state=0).fit(space.X, triplets=triplets)
    wide = space.widen(model, X)
    k = space.X.shape[1]
    rest = ((X / space.scale) - (X / space.scale).mean(0)) @ space.axes[k:].T
    c = np.sqrt(np.sum(model.transform(space.X) ** 2) / np.sum(space.X**2))
    expected = np.sum((model.transform(space.X[:5]) - model.transform(space.X[5:10])) ** 2, 1)
    expected += np.sum((c * (rest[:5] - rest[5:10])) ** 2, 1)
    np.testing.assert_allclose(wide.pair_distance(X[:5], X[5:10]) ** 2, expected, rtol=1e-8)


# Figures


def test_the_estimated_error_is_near_the_true_one():
    rng = np.random.default_rng(0)
    for error in (0.05, 0.2, 0.35):
        wrong = rng.random((2, 2000)) < error
        caught = (~wrong[0][:500]).tolist()
        again = (wrong[0] == wrong[1]).tolist()
        assert persons.estimate_error(caught, again) == pytest.approx(error, abs=0.03)
        assert persons.estimate_error([], again) == pytest.approx(error, abs=0.05)
        sure = rng.uniform(0.5, 1, 2000)  # of the side that the metric prefers
        is_true = (rng.random(2000) < sure) != wrong[0]
        verdict = persons.Verdict(np.where(is_true, sure, 1 - sure), np.ones(2000), "")
        assert persons.estimate_error([], [], verdict) == pytest.approx(error, abs=0.05)
    assert persons.estimate_error([], []) is None


def test_wilsons_interval_is_that_of_the_textbook():
    low, high = owner.interval(0.8, 10)
    assert (round(low, 4), round(high, 4)) == (0.4902, 0.9433)  # 8 of 10


def test_answers_to_gain_follow_the_doublings():
    curve = [[n, 0.6 + 0.02 * np.log2(n / 10), 0, 1] for n in (10, 20, 40, 80)]
    assert owner.answers_to_gain(curve) == int(np.ceil(80 * (2**0.5 - 1)))
    assert owner.answers_to_gain([[n, 0.7, 0, 1] for n in (10, 20, 40)]) is None
    assert owner.answers_to_gain(curve[:2]) is None


def test_the_lead_over_euclid_is_that_of_paired_questions():
    first, second, one = np.array([1.0] * 8 + [0.5]), np.array([0.0] * 8 + [0.5]), np.zeros(9, int)
    lead, low, high = owner.difference(first, second, one)
    assert lead == pytest.approx(8 / 9)
    # Agresti and Min: 8.5 wins, 0.5 losses and 2 ties in 11.
    half = 1.96 * np.sqrt(9 / 11 - (8 / 11) ** 2) / np.sqrt(11)
    assert (low, high) == pytest.approx((8 / 11 - half, 8 / 11 + half))
    same = owner.difference(first, first, one)
    assert same[0] == 0
    assert same[1] < 0 < same[2]


def test_the_lead_is_beyond_chance_as_seldom_as_stated():
    rng = np.random.default_rng(0)
    for n in (10, 30, 200):
        draws = rng.random((2000, 2, n)) < 0.7
        ahead = [owner.difference(a, b, np.zeros(n, int))[1] > 0 for a, b in draws.astype(float)]
        assert np.mean(ahead) < 0.035


def test_pairs_are_scored_by_the_area_under_the_curve():
    from mdaml.model_selection import pair_auc

    rng = np.random.default_rng(0)
    X, pairs = rng.normal(size=(30, 3)), rng.permutation(30).reshape(15, 2)
    labels = np.where(rng.random(15) < 0.4, 1, -1)
    columns = {"question": [f"q{n}" for n in range(15)]}
    held = Constraints(pairs=pairs, pair_labels=labels, n_points=30, columns=columns)
    metric = Euclidean().fit(X)
    right, groups = owner._score_questions(metric, X, held)
    assert right.mean() == pytest.approx(pair_auc(metric, X, held))
    assert (groups == (labels > 0)).all()


def answer_in_parts(site, error):
    learning = Learner(site.storage, site.items, patience=0)  # however long a fit takes
    for seed in range(4):
        answer(site, 60, error=error, seed=seed)
        learning.step()
    return site.storage.latest("report")["report"]


def test_answers_at_random_promise_no_gain(site):
    report = answer_in_parts(site, 0.5)
    assert len(report["curve"]) >= 3
    assert report["lead"][1] < 0 < report["lead"][2]
    assert report["gain"] is None


def test_answers_that_teach_are_told_by_the_lead(site):
    report = answer_in_parts(site, 0.1)
    lead, low, high = report["lead"]
    assert 0 < low < lead < high
    assert lead == pytest.approx(report["curve"][-1][1] - report["euclid"][0])


def test_a_score_that_grows_by_chance_promises_no_gain(monkeypatch):
    monkeypatch.setattr(owner, "answers_to_gain", lambda _: 12)
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 4)), np.array([rng.permutation(40)[:3] for _ in range(60)])
    first = Euclidean().fit(X)
    first.components_ = np.eye(4)[:1]
    right = np.where(
        (first.pair_distance(X[T[:, 0]], X[T[:, 1]]) < first.pair_distance(X[T[:, 0]], X[T[:, 2]]))[
            :, None
        ],
        T,
        T[:, [0, 2, 1]],
    )
    for supervision, gain in ((right, 12), (T, None)):
        columns = {"question": [f"q{n}" for n in range(60)]}
        held = Constraints(triplets=supervision, n_points=40, columns=columns)
        assert owner.describe_learning([(10, first)], Euclidean().fit(X), X, held)["gain"] == gain


def test_kinds_of_people_are_counted_and_nobody_is_blamed_for_another_view(site):
    for number in range(12):
        answer(site, 50, f"p{number}", error=0.05, seed=number, feature=2 if number < 5 else 0)
    Learner(site.storage, site.items).step()
    report = site.storage.latest("report")["report"]
    assert sorted(report["kinds"]) == [5, 7]
    by_all, by_kind = report["by_kind"]
    assert by_kind > 0.85
    assert by_kind > by_all + 0.1
    for person in report["persons"]:
        size = 5 if person["who"] in {f"p{number}" for number in range(5)} else 7
        assert person["remark"].startswith("agrees with kind"), person
        assert person["remark"].endswith(f"{size} persons")
        assert person["error"] < 0.2


def test_who_agrees_with_no_kind_is_counted_in_none(site):
    for name in "abcde":
        answer(site, 2, name)
    remarks = ["agrees with kind 0, 2 persons"] * 2 + ["agrees with kind 1, 1 person"]
    remarks += ["answers the wrong way round (90% to 100% wrong)", "answers at random: agrees with"]
    verdicts = {
        name: persons.NO_VERDICT._replace(kind=kind, remark=remark, error=0.1)
        for name, kind, remark in zip("abcde", (0, 0, 1, 0, 1), remarks, strict=True)
    }
    told = persons.describe_answers(site.storage.answers(), verdicts)
    assert (told["kinds"], told["by_kind"]) == ([2, 1], None)


@pytest.mark.parametrize(
    ("form", "n"), [("triplet", 150), pytest.param("same", 90, marks=pytest.mark.slow)]
)
def test_the_owner_is_asked_whether_all_answer_the_wrong_way_round(tmp_path, form, n):
    items, asked = make_items(40, 4), {}
    for what, error in (("right", 0.1), ("at random", 0.5), ("opposite", 1.0)):
        site = make_site(tmp_path / f"{what}.db", items, Plan(form=form))
        choose = answer if form == "triplet" else answer_pairs
        choose(site, n, error=error)
        Learner(site.storage, items, 0).step()
        asked[what] = site.storage.latest("report")["report"]["opposite"]
        site.close()
    assert asked.pop("opposite") is not None
    assert set(asked.values()) == {None}


def test_who_answers_at_random_is_told_and_counts_less(site, tmp_path):
    for seed in range(3):
        answer(site, 80, "careful", error=0.05, seed=seed)
        answer(site, 80, "careless", error=0.5, seed=seed + 10)
    Learner(site.storage, site.items).step()
    careful, careless = site.storage.latest("report")["report"]["persons"]
    assert careful["remark"] == ""
    assert careless["remark"].startswith("answers at random: agrees with no kind (")
    assert careful["error"] < 0.15 < 0.35 < careless["error"]
    weights = load(site, tmp_path).persons_["weight"]
    assert weights[0] > 2 * weights[1]


def test_persons_are_described_by_what_they_said(tmp_path):
    # So many repeats that who errs in two of five answers contradicts himself in one at least.
    site = make_site(tmp_path / "answers.db", make_items(40, 4), Plan(repeats=0.5))
    answer(site, 60, "careful")
    answer(site, 60, "careless", error=0.4, seed=3)
    rows = persons.describe_answers(site.storage.answers())["persons"]
    careful, careless = rows
    assert (careful["who"], careful["answers"]) == ("careful", 60)
    assert careful["same_again"] == [careful["same_again"][1]] * 2
    assert careful["error"] < careless["error"]
    site.close()


def test_doubtful_answers_are_those_that_contradict_the_metric():
    X = np.array([[0.0], [1.0], [10.0], [11.0], [20.0]])
    right = [[0, 1, 2], [0, 1, 3], [2, 3, 0], [2, 3, 4], [1, 0, 2], [3, 2, 1], [4, 3, 0]] * 3
    columns = {"who": ["ann"] * 22, "question": [f"q{n}" for n in range(22)]}
    supervision = Constraints(triplets=[*right, [0, 4, 1]], n_points=5, columns=columns)
    (found,) = owner.find_doubtful(Euclidean().fit(X), X, supervision)
    assert (found["items"], found["who"]) == ([0, 4, 1], "ann")


# Notebooks


def test_an_interview_that_cannot_start_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match="uvicorn"):
        Interview(texts=["cat", "lion", "car"])
    assert list(tmp_path.iterdir()) == []


def test_an_interview_returns_constraints():
    import httpx

    with pytest.raises(ValueError, match="a row for each item"):
        Interview([[1.0]], texts=["a", "b"])
    talk = Interview(texts=["cat", "lion", "car", "bus"], ids=["c", "l", "r", "b"])
    assert f'src="{talk.url}"' in talk._repr_html_()
    page = httpx.get(talk.url)
    assert "frame-ancestors http://localhost:*" in page.headers["content-security-policy"]
    headers = {"x-page-token": page.text.split('name="token" content="')[1].split('"')[0]}
    url = talk.url.replace("/ask", "/api/answers")
    reply = httpx.post(url, json={"events": []}, headers=headers).json()
    event = {"id": "answer-1", "question": reply["questions"][0]["id"], "outcome": "answer"}
    httpx.post(url, json={"events": [event | {"choice": [1]}]}, headers=headers)
    supervision = talk.constraints
    assert len(supervision.triplets) == 1
    assert supervision.ids.tolist() == ["c", "l", "r", "b"]
    talk.close()


@pytest.mark.slow
def test_places_of_kinds_of_items_are_learned_if_asked_for(tmp_path):
    rng = np.random.default_rng(0)
    corner = rng.integers(4, size=120)  # opposite corners of a square are alike
    X = np.array([[0, 0], [0, 4], [4, 4], [4, 0]])[corner] + 0.8 * rng.normal(size=(120, 2))
    names = [f"item {row}" for row in range(len(X))]
    items = Items(names, (Column("text", names),), X, ("x0", "x1"))
    site = make_site(tmp_path / "answers.db", items, Plan(repeats=0), method="localmdaml")
    learning, kinds = Learner(site.storage, items, method=site.method), corner % 2

    def answer_some(n, person):
        for k in range(n):
            question = site.collector.submit(person, []).result()["questions"][0]
            a, b, c = (kinds[items.rows[name]] for name in question["items"])
            choice = 1 if (a == b) >= (a == c) else 2
            event = {"id": f"{person} {k:05}", "question": question["id"], "outcome": "answer"}
            site.collector.submit(person, [event | {"choice": [choice]}]).result()
        learning.step()
        return load(site, tmp_path)

    assert isinstance(answer_some(12, "ann"), MDaML)  # too few to hold some out
    model = answer_some(500, "bob")
    assert isinstance(model, LocalMDaML)
    assert model.n_places_ > 0
    assert model.feature_names_in_.tolist() == ["x0", "x1"]
    report = site.storage.latest("report")["report"]
    assert report["curve"][-1][1] > report["euclid"][0] + 0.1
    assert len(site.storage.latest("queries")["queries"]) == 200
    assert report["nearest"]
    assert report["map"]
    site.close()
