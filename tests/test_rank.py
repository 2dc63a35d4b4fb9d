"""The number of components chosen by held-out votes, and the kernel that counts them."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.datasets import make_blobs, make_classification
from sklearn.neighbors import KNeighborsClassifier

from mdaml import DMLMJ, LFDA
from mdaml.constraints.labels import Classes
from mdaml.estimators.rank import best_rank, classes_without, folds, holdout
from mdaml.kernels.voting import nested_votes


def random_votes(seed=0, n_queries=60, n_train=90, n_features=6, n_classes=4):
    rng = np.random.default_rng(seed)
    z_codes, q_codes = (rng.integers(0, n_classes, n) for n in (n_train, n_queries))
    centers = rng.normal(size=(n_classes, n_features))
    Q, Z = (centers[codes] + rng.normal(size=(len(codes), n_features)) for codes in
            (q_codes, z_codes))  # fmt: skip
    return Q, q_codes, Z, z_codes, n_classes


def votes_one_by_one(Q, q_codes, Z, z_codes, n_neighbors):
    """By sorting distances in loops: ties to the earlier row, then to the lower code."""
    correct = np.zeros(Q.shape[1], int)
    for m in range(1, Q.shape[1] + 1):
        for query, code in zip(Q, q_codes, strict=True):
            sq_dists = [sum((query[:m] - z[:m]) ** 2) for z in Z]
            order = sorted(range(len(Z)), key=lambda z: (sq_dists[z], z))
            counts = Counter(int(z_codes[z]) for z in order[:n_neighbors])
            elected = min(counts, key=lambda c: (-counts[c], c))
            correct[m - 1] += elected == code
    return correct


# The kernel


@pytest.mark.parametrize("n_neighbors", [1, 5, 12])
@pytest.mark.parametrize("n_train", [13, 16, 90])
def test_votes_are_those_of_scikit_learn_for_every_number_of_columns(n_neighbors, n_train):
    Q, q_codes, Z, z_codes, n_classes = random_votes(n_train=n_train)
    found = nested_votes(Q, q_codes, Z, z_codes, n_classes, n_neighbors)
    for m in range(1, Q.shape[1] + 1):
        model = KNeighborsClassifier(n_neighbors, algorithm="brute").fit(Z[:, :m], z_codes)
        assert found[m - 1] == np.sum(model.predict(Q[:, :m]) == q_codes)


integers = st.integers(-2, 2)


@given(
    arrays(np.int64, (5, 3), elements=integers),
    arrays(np.int64, (19, 3), elements=integers),
    st.integers(1, 7),
    st.integers(0, 1000),
)
def test_ties_of_distances_go_to_the_earlier_row_and_of_votes_to_the_lower_code(Q, Z, k, seed):
    rng = np.random.default_rng(seed)
    q_codes, z_codes = rng.integers(0, 3, len(Q)), rng.integers(0, 3, len(Z))
    found = nested_votes(Q.astype(float), q_codes, Z.astype(float), z_codes, 3, k)
    np.testing.assert_array_equal(found, votes_one_by_one(Q, q_codes, Z, z_codes, k))


def test_a_tie_of_votes_is_lost_by_the_higher_code():
    Q, Z = np.zeros((2, 1)), np.array([[1.0], [1.0], [2.0], [2.0]])
    votes = nested_votes(Q, np.array([0, 1]), Z, np.array([1, 0, 1, 0]), 2, 4)
    np.testing.assert_array_equal(votes, [1])
    # Of three rows at one distance the first two vote.
    Z, codes = np.ones((3, 1)), np.array([1, 1, 0])
    np.testing.assert_array_equal(
        nested_votes(np.zeros((1, 1)), np.array([1]), Z, codes, 2, 2), [1]
    )


def test_all_rows_vote_if_there_are_fewer_than_neighbors():
    Q, q_codes, Z, z_codes, n_classes = random_votes(n_train=4)
    few = nested_votes(Q, q_codes, Z, z_codes, n_classes, 4)
    many = nested_votes(Q, q_codes, Z, z_codes, n_classes, 50)
    np.testing.assert_array_equal(few, many)


# The parts that are held out


def classes_of(*sizes, seed=0):
    y = np.repeat(np.arange(len(sizes)), sizes)
    return Classes.from_labels("test", np.random.default_rng(seed).permutation(y))


sizes_of_classes = st.lists(st.integers(1, 40), min_size=2, max_size=8).filter(
    lambda sizes: max(sizes) > 1
)


@given(sizes_of_classes, st.integers(0, 100))
def test_holdout_takes_thirty_percent_of_each_class_but_leaves_two(sizes, seed):
    classes = classes_of(*sizes)
    parts = holdout(classes, np.random.RandomState(seed))
    taken = [min(round(0.3 * size), max(size - 2, 0)) for size in sizes]
    if sum(taken) == 0:
        assert parts == []
    else:
        (part,) = parts
        np.testing.assert_array_equal(np.bincount(classes.of[part], minlength=len(sizes)), taken)


@given(sizes_of_classes, st.integers(0, 100))
def test_folds_hold_out_each_sample_once_in_equal_shares_of_each_class(sizes, seed):
    classes = classes_of(*sizes)
    parts = folds(classes, np.random.RandomState(seed))
    assert len(parts) == (min(5, max(sizes)) if max(sizes) > 2 else 0)
    times = np.sum(parts, axis=0) if parts else np.zeros(len(classes.of))
    np.testing.assert_array_equal(times, classes.size[classes.of] > 2)
    shares = np.array([np.bincount(classes.of[part], minlength=len(sizes)) for part in parts])
    if parts:
        assert np.all(np.ptp(shares, axis=0) <= 1)
        assert np.ptp(shares.sum(axis=1)) <= 1
        assert np.all(np.array(sizes) - shares >= np.minimum(sizes, 2))


@pytest.mark.parametrize("split", [holdout, folds])
def test_parts_are_the_same_for_a_seed_and_differ_between_seeds(split):
    classes = classes_of(20, 30)
    parts = [split(classes, np.random.RandomState(seed)) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(parts[0], parts[1])
    assert not np.array_equal(parts[0], parts[2])


@pytest.mark.parametrize("split", [holdout, folds])
def test_members_are_drawn_from_everywhere_in_their_class(split):
    classes = classes_of(50, 50)
    drawn = [split(classes, np.random.RandomState(seed))[0] for seed in range(40)]
    assert np.all(np.any(drawn, axis=0))


def test_classes_without_some_places_keep_their_numbers_and_rows():
    classes = Classes.from_labels("test", [2, 0, 2, 0, 5, 2])
    kept = classes_without(classes, np.array([True, False, False, True, False, False]))
    np.testing.assert_array_equal(kept.rows, [3, 0, 5, 4])
    np.testing.assert_array_equal(kept.of, [0, 1, 1, 2])
    np.testing.assert_array_equal(kept.first, [0, 1, 3])
    np.testing.assert_array_equal(kept.size, [1, 2, 1])


# The choice


def problem(seed=0, n_samples=120):
    X, y = make_classification(
        n_samples, 6, n_informative=3, n_redundant=0, n_classes=3, random_state=seed
    )
    return X, y


def accuracies(model, X, y, parts, classes):
    """Correct votes of 5 neighbours for 1, 2, ... components, by one fit for each number."""
    correct = np.zeros(X.shape[1], int)
    for part in parts:
        test = np.zeros(len(X), bool)
        test[classes.rows[part]] = True
        for m in range(1, X.shape[1] + 1):
            fitted = model.set_params(n_components=m).fit(X[~test], y[~test])
            voters = KNeighborsClassifier(5).fit(fitted.transform(X[~test]), y[~test])
            correct[m - 1] += np.sum(voters.predict(fitted.transform(X[test])) == y[test])
    return correct


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("model", "rank", "split"),
    [
        (DMLMJ(3), None, holdout),
        (DMLMJ(3), "auto", folds),
        (LFDA(3), "auto", folds),
        (LFDA(3, embedding="plain"), "auto", folds),
        (LFDA(3, embedding="orthonormalized"), "auto", folds),
    ],
)
def test_chosen_rank_is_the_best_of_separate_fits_and_the_largest_of_equals(
    model, rank, split, seed
):
    X, y = problem(seed)
    chosen = model.set_params(n_components=rank, random_state=seed).fit(X, y).n_components_
    classes = Classes.from_labels("test", y)
    parts = split(classes, np.random.RandomState(seed))
    correct = accuracies(model, X, y, parts, classes)
    assert chosen == max(np.flatnonzero(correct == correct.max())) + 1


@pytest.mark.parametrize("model", [DMLMJ(), DMLMJ(n_components="auto"), LFDA(n_components="auto")])
def test_fit_with_the_chosen_rank_is_the_fit_with_that_number(model):
    X, y = problem()
    chosen = model.set_params(random_state=3).fit(X, y)
    given = type(model)(n_components=chosen.n_components_).fit(X, y)
    np.testing.assert_array_equal(chosen.components_, given.components_)
    np.testing.assert_array_equal(chosen.eigenvalues_, given.eigenvalues_)


def test_equal_accuracy_keeps_all_components():
    X, y = make_blobs(60, 4, centers=np.array([[0.0] * 4, [100.0] * 4]), random_state=0)
    assert DMLMJ(random_state=0).fit(X, y).n_components_ == 4
    assert LFDA(n_components="auto", random_state=0).fit(X, y).n_components_ == 4


def test_noise_is_left_out():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = rng.normal(size=(200, 20))
    X[:, 0] += 2 * y
    assert LFDA(n_components="auto", embedding="plain", random_state=0).fit(X, y).n_components_ < 10


@pytest.mark.parametrize("model", [DMLMJ, LFDA])
def test_auto_is_the_same_for_a_seed(model):
    X, y = problem(5, 60)
    ranks = {model(n_components="auto", random_state=7).fit(X, y).n_components_ for _ in range(3)}
    assert len(ranks) == 1


@pytest.mark.parametrize("model", [DMLMJ(), DMLMJ(n_components="auto"), LFDA(n_components="auto")])
def test_all_components_are_kept_if_no_class_has_a_member_to_spare(model):
    X = np.random.default_rng(0).normal(size=(9, 3))
    fitted = model.fit(X, [0, 0, 1, 1, 2, 2, 3, 3, 4])
    assert fitted.n_components_ == 3
    assert fitted.components_.shape == (3, 3)


@pytest.mark.parametrize("sizes", [(3, 1), (3, 2, 1, 1), (4, 3), (5, 5, 1), (3,) * 10, (40, 1)])
@pytest.mark.parametrize("model", [DMLMJ(), DMLMJ(n_components="auto"), LFDA(n_components="auto")])
@pytest.mark.parametrize("seed", range(3))
def test_small_classes_never_fail(sizes, model, seed):
    X = np.random.default_rng(seed).normal(size=(sum(sizes), 2))
    y = np.repeat(np.arange(len(sizes)), sizes)
    assert 1 <= model.set_params(random_state=seed).fit(X, y).n_components_ <= 2


def test_samples_are_centred_for_each_part_and_votes_do_not_see_the_mean():
    X, y = problem()
    classes = Classes.from_labels("test", y)
    seen = []

    def learn(samples, among):
        seen.append(np.abs(samples.mean(axis=0)).max())
        assert np.array_equal(np.sort(among.of), among.of)
        return np.eye(6)

    parts = folds(classes, np.random.RandomState(0))
    rank = best_rank(X[classes.rows] + 10.0, classes, learn, parts)
    assert len(seen) == 5
    assert max(seen) < 1e-12
    assert rank == best_rank(X[classes.rows], classes, learn, parts)


@pytest.mark.parametrize("model", [DMLMJ, LFDA])
@pytest.mark.parametrize(
    ("rank", "error", "message"),
    [
        (0, ValueError, "must be between 1 and 3 .the features of X., None or 'auto', got 0"),
        (4, ValueError, "must be between 1 and 3 .the features of X., None or 'auto', got 4"),
        (2.0, TypeError, "must be an integer between 1 and 3 .*, None or 'auto', got 2.0"),
        ("all", TypeError, "must be an integer between 1 and 3 .*, None or 'auto', got 'all'"),
        (True, TypeError, "got True"),
        (np.array([1, 2]), TypeError, "must be an integer"),
    ],
)
def test_a_rank_that_is_none_is_refused_in_words(model, rank, error, message):
    X = np.random.default_rng(0).normal(size=(8, 3))
    with pytest.raises(error, match=rf"{model.__name__}\(n_components=...\) .*{message}"):
        model(n_components=rank).fit(X, [0, 0, 0, 0, 1, 1, 1, 1])


# Threads


@pytest.mark.parametrize(
    "model", [DMLMJ(random_state=0), LFDA(), LFDA(n_components="auto", random_state=0)]
)
def test_no_bit_of_the_fit_depends_on_the_number_of_threads(model, use_threads):
    X, y = make_blobs([900, 200, 3, 4, 60, 1], 5, random_state=0, cluster_std=4.0)
    fits = []
    for count in (1, 2, 3, 7):
        use_threads(count)
        fits.append(model.fit(X, y).components_)
    for other in fits[1:]:
        np.testing.assert_array_equal(other, fits[0])


def test_no_vote_depends_on_the_number_of_threads(use_threads):
    case = random_votes(n_queries=301)
    counts = []
    for n_threads in (1, 2, 3, 7):
        use_threads(n_threads)
        counts.append(nested_votes(*case, 5))
    np.testing.assert_array_equal(counts, [counts[0]] * 4)
