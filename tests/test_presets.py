"""One table of defaults: an argument replaces its cell and nothing else, and all of it is kept."""

import json
import pickle
import zipfile
from contextvars import Context, copy_context
from dataclasses import MISSING, asdict, fields, replace
from inspect import signature
from threading import Barrier, Thread

import literal
import numpy as np
import pytest
from sklearn.base import clone
from suite.specs import make_spec

from mdaml import (
    PRESETS,
    LocalMDaML,
    MDaML,
    MDaMLCV,
    Partners,
    Preset,
    limit_memory,
    load,
)
from mdaml.constraints import Constraints, sample_triplets
from mdaml.constraints.labels import Classes
from mdaml.datasets import make_multimodal, make_triplets
from mdaml.estimators.posing import pose
from mdaml.estimators.presets import RANDOM_PARTNERS
from mdaml.estimators.summary import list_values
from mdaml.kernels.threads import side_by_side
from mdaml.model_selection import MetricSearchCV, _trials
from mdaml.solver.spec import Spec
from mdaml.stores.choice import current_limit

N, D = 80, 5
RNG = np.random.default_rng(0)
Y = np.arange(N) % 4
X = RNG.normal(size=(N, D)) + 1.5 * RNG.normal(size=(4, D))[Y]
TRIPLETS, _ = make_triplets(X, n_triplets=300, components=np.eye(D)[:2], random_state=0)
LABELS = Classes.from_labels("MDaML", Y)
COMPARISONS = Constraints(triplets=TRIPLETS, n_points=N)
OF_GROUPS = Constraints(triplets=sample_triplets(Y, 4, 4, random_state=0), n_points=N)
GIVEN = replace(
    PRESETS["neighbors"],
    n_modes=4,
    floor=0.3,
    anchor=0.2,
    init_modes="kmeans",
    max_inner_iter=2,
    find_groups=False,
    partners=Partners(n_similar=2, n_dissimilar=3, pairing="zip"),
)


# An argument replaces its cell and nothing else

# For each kind of fit: the row it must have, its goal, what is learned from, the row's preset.
ROWS = {
    "labels": ("labels", "auto", LABELS, PRESETS["labels"]),
    "labels, for neighbours": ("labels", "neighbors", LABELS, PRESETS["labels"]),
    "groups": ("groups", "neighbors", OF_GROUPS, PRESETS["groups"]),
    "comparisons": ("comparisons", "auto", COMPARISONS, PRESETS["comparisons"]),
    "neighbors": ("neighbors", "neighbors", COMPARISONS, PRESETS["neighbors"]),
    "paper, labels": ("paper", "paper", LABELS, PRESETS["paper"]),
    "paper, comparisons": ("paper", "paper", COMPARISONS, PRESETS["paper"]),
    "given, labels": ("given", GIVEN, LABELS, GIVEN),
    "given, comparisons": ("given", GIVEN, COMPARISONS, GIVEN),
}
WEIGHTS = RNG.dirichlet(np.ones(6), N)
OF_MODES = {"triplet_weight", "ridge"}  # follow modes and eta where these are their unit
OF_PARTNERS = {"neighbors", "n_similar", "n_dissimilar", "n_refresh", "pairing"}
OF_RANK = {"rank", "triplet_weight", "anchor", "anchors", "scale_metric", "shrinkage", "shrinkages"}
# Arguments, what they must set, and what else may follow from them.
ARGUMENTS = [
    ({"n_modes": 5}, {"n_modes": 5, "count_modes": False}, OF_MODES),
    ({"n_modes": WEIGHTS}, {"n_modes": 6, "count_modes": False, "weights": WEIGHTS}, OF_MODES),
    ({"eta": 2.5}, {"eta": 2.5}, OF_MODES),
    ({"triplet_weight": 7.0}, {"triplet_weight": 7.0, "mean_weight": False}, set()),
    ({"ridge": 0.5}, {"ridge": 0.5}, set()),
    ({"anchor": 0.0}, {"anchor": 0.0, "anchors": ()}, {"scale_metric"}),
    ({"anchor": 0.7}, {"anchor": 0.7, "anchors": (), "scale_metric": False}, set()),
    ({"shrinkage": 0.3}, {"shrinkage": 0.3, "shrinkages": ()}, set()),
    (
        {"shrinkage": 1.0},
        {"shrinkage": 1.0, "shrinkages": (), "keep_start": True, "is_measured": False},
        {"anchors"},
    ),
    ({"partners": "random"}, {"n_similar": 10, "n_refresh": 0, "neighbors": False}, OF_PARTNERS),
    ({"partners": "neighbors"}, {"n_similar": 5, "n_refresh": 1, "pairing": "grid"}, OF_PARTNERS),
    ({"partners": Partners(n_similar=2)}, {"n_similar": 2, "n_dissimilar": 5}, OF_PARTNERS),
    ({"init_metric": "whitened"}, {"metric": "whitened", "scale_metric": False}, set()),
    ({"init_metric": 2.0 * np.eye(D)}, {"metric": 2.0 * np.eye(D), "scale_metric": False}, set()),
    ({"n_components": 2}, {"rank": 2, "scale_metric": False}, OF_RANK),
    ({"max_iter": 7}, {"max_iter": 7}, set()),
    ({"tol": 0.5}, {"tol": 0.5}, set()),
    ({"callback": print}, {"callback": print}, set()),
    ({"device": "auto"}, {}, set()),
    ({"verbose": 1}, {}, set()),
    ({"random_state": 3}, {}, set()),
]


def differences(spec, other):
    """Names of the fields in which two problems differ."""
    pairs = ((f.name, getattr(spec, f.name), getattr(other, f.name)) for f in fields(Spec))
    return {name for name, a, b in pairs if type(a) is not type(b) or not np.array_equal(a, b)}


def posed(row, **params):
    _, goal, supervision, _ = ROWS[row]
    return pose(MDaML(goal=goal, **params), X.shape, supervision)


@pytest.mark.filterwarnings("ignore:.* has (next to )?no effect:UserWarning")
@pytest.mark.parametrize(
    ("given", "wanted", "follows"),
    ARGUMENTS,
    ids=[f"{name}={str(value)[:20]}" for given, *_ in ARGUMENTS for name, value in given.items()],
)
@pytest.mark.parametrize("row", ROWS)
def test_an_argument_replaces_its_cell_and_nothing_else(row, given, wanted, follows):
    usual, changed = posed(row), posed(row, **given)
    assert usual.row == changed.row == ROWS[row][0]
    preset = ROWS[row][3]
    if follows is OF_MODES and preset.weight_unit != "modes":
        follows = set()
    if ROWS[row][2] is COMPARISONS:
        wanted = {name: value for name, value in wanted.items() if name != "neighbors"}
    differ = differences(usual.spec, changed.spec)
    assert differ <= set(wanted) | follows
    for name, value in wanted.items():
        np.testing.assert_array_equal(getattr(changed.spec, name), value, err_msg=name)


def test_every_parameter_is_tried_and_there_are_at_most_sixteen():
    names = list(signature(MDaML).parameters)
    assert {name for given, *_ in ARGUMENTS for name in given} == {*names} - {"goal"}
    assert len(names) <= 16


@pytest.mark.parametrize("row", ROWS)
def test_without_arguments_a_fit_has_the_cells_of_its_row(row):
    spec, preset = posed(row).spec, ROWS[row][3]
    factor = float(spec.n_modes) ** spec.eta if preset.weight_unit == "modes" else 1.0
    assert spec.triplet_weight == preset.triplet_weight * factor
    assert (spec.eta, spec.floor) == (preset.eta, preset.floor)
    assert (spec.max_iter, spec.max_inner_iter) == (preset.max_iter, preset.max_inner_iter)
    assert (spec.weights, spec.is_measured) == (preset.init_modes, preset.measure)
    assert spec.count_modes == (preset.n_modes == "counted")
    assert spec.count_modes or spec.n_modes == preset.n_modes
    partners = preset.partners
    assert (spec.n_similar, spec.n_dissimilar) == (partners.n_similar, partners.n_dissimilar)
    assert (spec.n_refresh, spec.pairing) == (partners.n_refresh, partners.pairing)
    if isinstance(preset.anchor, float):
        assert (spec.anchor, spec.anchors) == (preset.anchor, ())
    if isinstance(preset.shrinkage, tuple):
        assert spec.shrinkages == preset.shrinkage


def test_the_weight_and_the_ridge_follow_modes_and_eta_where_these_are_the_unit():
    spec = posed("paper, labels", n_modes=6, eta=2.0).spec
    assert spec.triplet_weight == 300.0 * 6**2
    assert spec.ridge == 1e-4 * (3 / 6) ** 2
    assert posed("labels", n_modes=2, eta=2.0).spec.ridge == 1e-4
    assert posed("paper, labels", n_modes=10).spec.ridge == pytest.approx(1e-4 * (3 / 10) ** 3)
    given = posed("paper, labels", n_modes=10, ridge=1e-4)
    assert given.spec.ridge == 1e-4  # as it is
    assert posed("comparisons", n_modes=1, eta=2.0).spec.triplet_weight == 6.0


def test_the_paper_is_the_row_of_the_paper_with_its_arguments():
    options = {"n_modes": 4, "eta": 2.0, "triplet_weight": 1.0, "ridge": 1e-3}
    model = MDaML.paper(**options, max_iter=3, random_state=5)
    assert (
        model.get_params()
        == MDaML(**options, goal="paper", max_iter=3, random_state=5).get_params()
    )
    spec = pose(model, X.shape, LABELS).spec
    wanted = make_spec(
        4, 2.0, 1.0, 1e-3, neighbors=False, n_similar=10, n_dissimilar=10, max_iter=3
    )
    assert differences(spec, wanted) == {"is_measured"}


def test_the_paper_starts_at_the_identity_and_lowers_eq_7():
    X, y = make_multimodal(60, random_state=0)
    weights = np.random.default_rng(0).dirichlet(np.ones(3), size=len(X))
    known = {"eta": 2.5, "triplet_weight": 50.0, "ridge": 1e-3}
    model = MDaML.paper(weights, **known, max_iter=2, random_state=0).fit(X, y)
    triplets = model.triplets_
    assert triplets.shape == (100 * len(X), 3)  # 10 + 10 partners of each sample
    anchor, similar, dissimilar = y[triplets.T]
    assert np.all(anchor == similar)
    assert np.all(anchor != dissimilar)
    partners = triplets[triplets[:, 0] == 0]
    assert [len(np.unique(members)) for members in partners.T] == [1, 10, 10]
    centers = weights.T @ X / weights.sum(axis=0)[:, None]
    start = literal.objective(np.eye(2), centers, weights, X, triplets, **known)
    assert model.history_[0] == pytest.approx(start, rel=1e-10)
    M = model.get_mahalanobis_matrix()
    end = literal.objective(M, model.centers_, model.weights_, X, triplets, **known)
    assert model.history_[-1] == pytest.approx(end, rel=1e-8)


@pytest.mark.parametrize("given", [{"n_modes": 4}, {"eta": 2.0}], ids=["n_modes", "eta"])
def test_modes_that_weigh_nothing_are_warned_of_with_what_to_do(given):
    ((name, value),) = given.items()
    message = rf"{name}={value} has next to no effect.*MDaML\.paper\({name}={value}\).*neighbors"
    with pytest.warns(UserWarning, match=message):
        posed("comparisons", **given)
    for row in ("labels", "neighbors", "paper, comparisons", "given, comparisons"):
        posed(row, **given)
    posed("comparisons", n_modes=1)
    posed("comparisons", shrinkage=1.0, **given)  # the start was asked for


def test_modes_of_a_row_of_ones_own_that_weigh_nothing_are_warned_of():
    row = replace(PRESETS["comparisons"], n_modes=3)
    with pytest.warns(UserWarning, match=r"n_modes=3 has next to no effect: in the preset 'given'"):
        pose(MDaML(goal=row), X.shape, COMPARISONS)
    pose(MDaML(goal=replace(row, floor=0.5)), X.shape, COMPARISONS)


def test_partners_of_comparisons_are_warned_of():
    for row in ("comparisons", "paper, comparisons"):
        with pytest.warns(UserWarning, match="partners has no effect.*comparisons were passed"):
            posed(row, partners="random")
    for row in ("labels", "neighbors"):  # of groups that are found in comparisons, partners matter
        posed(row, partners="random")


def test_numbers_of_the_table_stand_nowhere_else():
    usual = {field.name: field.default for field in fields(Spec) if field.default is not MISSING}
    numbers = {name: x for name, x in usual.items() if type(x) in (int, float)}
    assert {name: x for name, x in numbers.items() if x != 0} == {}
    assert {"n_similar", "max_iter", "max_inner_iter", "tol"}.isdisjoint(usual)


def test_a_row_may_be_given_as_its_fields():
    for supervision in (LABELS, COMPARISONS):
        spec, same = (
            pose(MDaML(goal=g), X.shape, supervision).spec for g in (GIVEN, asdict(GIVEN))
        )
        assert not differences(spec, same)
    partners = Partners(n_similar=2, pairing="zip")
    spec, same = (
        posed("labels", partners=p).spec for p in (partners, {"n_similar": 2, "pairing": "zip"})
    )
    assert not differences(spec, same)


@pytest.mark.parametrize("row", PRESETS)
def test_every_row_can_be_passed_as_it_is(row):
    supervision = LABELS if row in ("labels", "groups", "paper") else COMPARISONS
    goal = {"labels": "auto", "comparisons": "auto"}.get(row, row)
    given = pose(MDaML(goal=PRESETS[row]), X.shape, supervision)
    assert given.row == "given"
    if row != "groups":
        assert not differences(given.spec, pose(MDaML(goal=goal), X.shape, supervision).spec)


# Presets and partners are values of parameters like others


def model_of_all():
    return MDaML(3, goal=GIVEN, partners=Partners(n_similar=3, n_refresh=0), random_state=0)


def test_clones_and_pickles_have_equal_presets_and_partners():
    for copy in (clone(model_of_all()), pickle.loads(pickle.dumps(model_of_all()))):
        assert copy.get_params() == model_of_all().get_params()
        assert isinstance(copy.goal, Preset)
        assert isinstance(copy.partners, Partners)
    fitted, same = (m.fit(X, Y) for m in (model_of_all(), clone(model_of_all())))
    np.testing.assert_array_equal(fitted.components_, same.components_)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


def test_presets_and_partners_are_set_and_shown_like_other_parameters():
    model = MDaML().set_params(goal=GIVEN, partners=RANDOM_PARTNERS)
    assert model.get_params()["goal"] is GIVEN
    assert model.get_params(deep=True)["partners"] is RANDOM_PARTNERS
    assert "partners=Partners(kind='random'" in repr(model)
    assert repr(MDaML(partners=Partners(n_similar=2))).startswith("MDaML(partners=Partners(")
    assert repr(MDaML()) == "MDaML()"
    assert "Partners" in model._repr_html_()


@pytest.mark.filterwarnings("ignore:partners has no effect:UserWarning")
@pytest.mark.parametrize(
    "supervision", [{"y": Y}, {"triplets": TRIPLETS}], ids=["labels", "triplets"]
)
def test_a_saved_model_means_the_same_when_it_is_fitted_again(supervision, tmp_path):
    model = model_of_all().fit(X, **supervision)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.goal == asdict(GIVEN)
    assert loaded.partners == asdict(model.partners)
    assert loaded.summary() == model.summary()
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    again = clone(loaded).fit(X, **supervision)
    np.testing.assert_array_equal(again.components_, model.components_)
    np.testing.assert_array_equal(again.history_, model.history_)
    again.save(tmp_path / "again")
    assert load(tmp_path / "again").get_params() == loaded.get_params()


# Files of 1.0.0rc1

OLD = {
    "n_similar": 5,
    "n_dissimilar": 5,
    "sampling": "neighbors",
    "n_refresh": 1,
    "pairing": "grid",
    "floor": "auto",
    "init": "gmm",
    "max_inner_iter": 5,
    "memory_limit": None,
}


def save_as_before(model, path, **params):
    """Write a file as the first candidate wrote it: other parameters, no word of presets."""
    model.save(path)
    with zipfile.ZipFile(path) as file:
        found = {name: file.read(name) for name in file.namelist()}
    document = json.loads(found["model.json"])
    written = document["model"]["params"]
    del written["partners"]
    written |= OLD | params
    for name in ("preset_", "supervision_"):
        del document["model"]["fitted"][name]
    found["model.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, content in found.items():
            file.writestr(name, content)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of two rounds
@pytest.mark.parametrize(
    ("params", "partners"),
    [
        ({}, "auto"),
        ({"floor": 0.3, "init": "kmeans", "max_inner_iter": 9, "memory_limit": "2 GB"}, "auto"),
        ({"sampling": "random"}, Partners("random")),
        (
            {"n_similar": 2, "n_dissimilar": 7, "n_refresh": 0, "pairing": "zip"},
            Partners("neighbors", 2, 7, 0, "zip"),
        ),
    ],
    ids=["defaults", "moved", "random", "partners"],
)
def test_a_file_of_the_first_candidate_loads_and_can_be_fitted_again(params, partners, tmp_path):
    model = MDaML(2, shrinkage=0.0, random_state=0).fit(X, Y)
    save_as_before(model, tmp_path / "old", **params)
    old = load(tmp_path / "old")
    np.testing.assert_array_equal(old.transform(X), model.transform(X))
    assert old.partners == (partners if partners == "auto" else asdict(partners))
    assert (old.n_modes, old.shrinkage, old.random_state) == (2, 0.0, 0)
    assert "80 samples of 5 features" in old.summary()
    wanted = clone(model).set_params(partners=partners).fit(X, Y)
    np.testing.assert_array_equal(clone(old).fit(X, Y).components_, wanted.components_)
    old.partial_fit(X, Y)
    old.save(tmp_path / "new")
    assert load(tmp_path / "new").get_params() == old.get_params()


def test_a_file_with_parameters_that_never_were_is_still_refused(tmp_path):
    model = MDaML(2, shrinkage=0.0, random_state=0).fit(X, Y)
    save_as_before(model, tmp_path / "odd", sampler="random")
    with pytest.raises(ValueError, match="MDaML has no parameter 'sampler'"):
        load(tmp_path / "odd")


# The summary says where values came from


def sources(model):
    return {name: source for name, _, source in list_values(model)}


def test_the_summary_tells_given_chosen_and_preset_values_apart():
    model = MDaML(1, eta=2.5, random_state=0).fit(X, triplets=TRIPLETS)
    found = sources(model)
    assert found["eta"] == "given"
    assert found["ridge"] == found["floor"] == "preset comparisons"
    assert found["anchor"].startswith("chosen on held-out data")
    fixed = sources(MDaML(goal=GIVEN, random_state=0).fit(X, triplets=TRIPLETS))
    assert fixed["anchor"] == fixed["floor"] == "preset given"
    plain = sources(MDaML.paper(3, random_state=0).fit(X, Y))
    assert {source.partition(",")[0] for source in plain.values()} == {
        "given",
        "preset paper",
        "default",
    }
    assert plain["triplet_weight"] == "preset paper, 300 K^eta"
    assert MDaML.paper().fit(X, Y).summary().splitlines()[1] == (
        f"learned from {80 * 100} comparisons, 10 rounds in all passes (max_iter is for each)"
    )


def test_the_summary_says_that_persons_change_the_weight_of_the_loss():
    who = np.arange(len(TRIPLETS)) % 3
    model = MDaML(anchor=0.1, random_state=0).fit(X, triplets=TRIPLETS, who=who)
    assert model.triplet_weight_ != 6.0
    found = sources(model)
    assert found["triplet_weight"] == "preset comparisons, times the mean weight of an answer"
    assert found["anchor"] == "given, over the mean weight of an answer"
    assert "comparisons of 3 persons" in model.summary()


def test_the_summary_of_a_search_says_what_it_chose_and_what_it_set(tmp_path):
    model = MDaMLCV(random_state=0).fit(*make_multimodal(random_state=0))
    found, n_tried = sources(model), len(model.cv_results_["params"])
    assert set(found.values()) >= {"preset labels", "default"}
    assert "given" not in found.values()
    for name in model.best_params_:
        assert found[name] == f"chosen among {n_tried} candidates"
    assert found["n_components"] == "default"
    model.save(tmp_path / "search")
    assert load(tmp_path / "search").summary() == model.summary()
    low = MDaMLCV(n_components=1, random_state=0).fit(*make_multimodal(random_state=0))
    assert sources(low)["n_components"] == "given"


def test_the_summary_of_places_names_their_own_values():
    X, y = make_multimodal(random_state=0)
    model = LocalMDaML(n_places=8, random_state=0).fit(X, y)
    values = {name: (value, source) for name, value, source in list_values(model)}
    assert values["n_places"] == ("8", "given")
    assert values["partners"] == ("10 + 10 random", "preset comparisons")
    assert values["triplet_weight"][1] == "preset comparisons, 6 n_columns / n_components"
    assert values["anchor"] == ("0.8", "default")
    assert model.summary().startswith(
        "LocalMDaML: 300 samples of 2 features, 300 labels of 2 classes\n"
    )


def test_a_value_that_no_row_leaves_open_is_not_called_chosen():
    X, y = np.random.default_rng(1).normal(size=(120, 4)), np.arange(120) % 2
    X[:, 1:] *= 5.0
    X[:, 0] += 3.0 * y
    triplets = sample_triplets(y, 6, 6, random_state=0)
    groups = MDaML(goal="neighbors", random_state=0).fit(X, triplets=triplets)
    assert groups.preset_ == "groups"
    assert sources(groups)["shrinkage"].startswith("preset groups")
    low = MDaML(n_components=2, random_state=0).fit(X, y)
    assert sources(low)["shrinkage"].startswith("preset labels")
    open_ = MDaML(random_state=0).fit(X, y)
    assert sources(open_)["shrinkage"].startswith("chosen on held-out data")


# A limit of memory is a setting of the process

TIGHT = r"limit_memory allows 1 MB .* may need \d+ MB"


def test_a_limit_holds_within_its_block_and_the_inner_one_decides():
    assert current_limit() is None
    with limit_memory("1 GB"):
        assert current_limit() == 10**9
        with limit_memory(1000):
            assert current_limit() == 1000
        with limit_memory(None):
            assert current_limit() is None
        assert current_limit() == 10**9
    assert current_limit() is None


def test_an_error_ends_a_limit_too():
    model = MDaML(shrinkage=0.0, random_state=0)
    with pytest.raises(ValueError, match=TIGHT), limit_memory("1 MB"):
        model.fit(X, Y)
    assert current_limit() is None
    assert model.fit(X, Y).components_.shape == (D, D)


def test_the_environment_sets_a_limit_that_a_block_replaces(monkeypatch):
    monkeypatch.setenv("MDAML_MEMORY_LIMIT", "1 MB")
    assert current_limit() == 10**6
    with pytest.raises(ValueError, match=TIGHT):
        MDaML(shrinkage=0.0, random_state=0).fit(X, Y)
    for limit in ("1 GB", None):
        with limit_memory(limit):
            assert MDaML(shrinkage=0.0, random_state=0).fit(X, Y).components_.shape == (D, D)
    monkeypatch.setenv("MDAML_MEMORY_LIMIT", "")
    assert current_limit() is None


def test_a_wrong_limit_in_the_environment_is_refused_by_its_name(monkeypatch):
    monkeypatch.setenv("MDAML_MEMORY_LIMIT", "plenty")
    message = "^The environment variable MDAML_MEMORY_LIMIT must be a positive number.*got 'plenty'"
    with pytest.raises(ValueError, match=message):
        MDaML(shrinkage=0.0, random_state=0).fit(X, Y)


def test_threads_have_limits_of_their_own_and_those_of_a_search_inherit_one():
    seen, both = {}, Barrier(2)

    def work(limit):
        before = current_limit()
        with limit_memory(limit):
            both.wait(10)  # the other thread is within its block, too
            seen[limit] = before, current_limit()

    with limit_memory(5000):
        threads = [Thread(target=work, args=(limit,)) for limit in (1000, 2000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (
            list(side_by_side(lambda _: current_limit(), [(n,) for n in range(4)], 2)) == [5000] * 4
        )
        assert copy_context().run(current_limit) == 5000
    assert seen == {1000: (None, 1000), 2000: (None, 2000)}


def search(**options):
    grid = {"n_modes": [1, 2]}
    model = MDaML(shrinkage=0.0, max_iter=1, random_state=0)
    return MetricSearchCV(model, grid, cv=2, refit=False, random_state=0, **options)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Nothing was learned")  # only whether it runs is asked
def test_a_search_hands_its_limit_on_to_where_no_context_is_inherited(monkeypatch):
    def in_empty_contexts(_n_jobs, **_options):
        return lambda jobs: (Context().run(call, *args, **more) for call, args, more in jobs)

    monkeypatch.setattr(_trials, "Parallel", in_empty_contexts)
    with limit_memory("1 MB"), pytest.raises(ValueError, match=TIGHT):
        search(n_jobs=2).fit(X, Y)
    assert len(search(n_jobs=2).fit(X, Y).cv_results_["params"]) == 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Nothing was learned")  # only whether it runs is asked
def test_processes_of_a_search_keep_the_limit(monkeypatch):
    with limit_memory("1 MB"), pytest.raises(ValueError, match=TIGHT):
        search(n_jobs=2).fit(X, Y)
    monkeypatch.setenv("MDAML_MEMORY_LIMIT", "1 MB")
    with pytest.raises(ValueError, match=TIGHT):
        search(n_jobs=2).fit(X, Y)
    with limit_memory(None):
        assert len(search(n_jobs=2).fit(X, Y).cv_results_["params"]) == 2


# A search over rows and partners


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_candidates_make_no_more_rounds_at_first_than_in_the_end(monkeypatch):
    made = []
    make = _trials._make
    monkeypatch.setattr(_trials, "_make", lambda *a, **k: made.append(make(*a, **k)) or made[-1])
    short = replace(PRESETS["comparisons"], max_iter=1, anchor=0.1)
    grid = {"goal": [short], "ridge": [1e-4, 1e-3, 1e-2, 1e-1]}
    MetricSearchCV(MDaML(shrinkage=0.0, random_state=0), grid, cv=2, random_state=0).fit(
        X, triplets=TRIPLETS
    )
    assert {model.n_iter_ for model in made} == {1}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:Nothing was learned")  # one round is too short to
def test_partners_are_searched_over():
    grid = {"partners": ["random", Partners(n_similar=2), {"n_similar": 3}]}
    model = MDaML(shrinkage=0.0, max_iter=1, random_state=0)
    found = MetricSearchCV(model, grid, cv=2, random_state=0).fit(X, Y)
    assert found.best_params_["partners"] in grid["partners"]


def test_the_summary_says_why_the_highest_share_was_not_taken():
    X, y = make_multimodal(random_state=0)
    model = MDaML(random_state=0).fit(X, y)
    model.shrinkage_ = 0.0
    model.gain_ |= {"score": "votes", "tried": (0.0, 0.25), "scores": (0.756, 0.758)}
    told = "0 has 75.6%, 0.25 has 75.8% (the lead over the one taken is too small to tell)"
    assert told in model.summary()
    model.gain_ |= {"scores": (0.758, 0.756)}
    assert "the lead over" not in model.summary()
    assert f"{model.n_iter_} rounds in all passes (max_iter is for each)" in model.summary()
