"""The value that holds triplets, pairs and quadruplets, and the ways to draw it."""

import copy
import pickle
import time
from collections import Counter
from dataclasses import FrozenInstanceError
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import KFold, cross_validate

from mdaml.constraints import Constraints, neighbor_triplets
from mdaml.constraints.counts import ConstraintCounts, count_repeated_comparisons

ARRAYS = ("triplets", "pairs", "pair_labels", "quadruplets", "weights")


def small(**changes):
    parts = {
        "triplets": [[0, 1, 2], [3, 2, 0]],
        "pairs": [[0, 3], [1, 2]],
        "pair_labels": [-1, 1],
        "quadruplets": [[0, 1, 2, 3]],
        "weights": [1.0, 2.0, 3.0, 4.0, 5.0],
        "n_points": 6,
    }
    return Constraints(**parts | changes)


@st.composite
def constraints(draw, max_points=7):
    """A mixture on few points, so that repetitions and contradictions are common."""
    n_points = draw(st.integers(3, max_points))
    n_triplets, n_pairs, n_quadruplets = (draw(st.integers(0, 12)) for _ in range(3))
    n_triplets += not n_triplets + n_pairs + n_quadruplets
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ordered = list(permutations(range(n_points), 2))
    fours = [(*near, *far) for near in ordered for far in ordered if set(near) != set(far)]
    n = n_triplets + n_pairs + n_quadruplets
    return Constraints(
        triplets=[rng.choice(n_points, 3, replace=False) for _ in range(n_triplets)],
        pairs=rng.choice(ordered, n_pairs) if n_pairs else None,
        pair_labels=rng.choice([1, -1], n_pairs) if n_pairs else None,
        quadruplets=rng.choice(fours, n_quadruplets) if n_quadruplets else None,
        weights=10.0 ** rng.uniform(-100, 100, n) if draw(st.booleans()) else None,
        n_points=n_points,
    )


def statements(value):
    """Every constraint as (what is said, weight), in order, by plain loops."""
    supervision = [("triplet", *map(int, row)) for row in value.triplets]
    labels = value.pair_labels
    supervision += [
        ("pair", *map(int, row), int(s)) for row, s in zip(value.pairs, labels, strict=True)
    ]
    supervision += [("quadruplet", *map(int, row)) for row in value.quadruplets]
    return list(zip(supervision, value.weights.tolist(), strict=True))


# Construction


def test_parts_come_back_as_given_in_64_bits():
    value = small()
    np.testing.assert_array_equal(value.triplets, [[0, 1, 2], [3, 2, 0]])
    np.testing.assert_array_equal(value.pairs, [[0, 3], [1, 2]])
    np.testing.assert_array_equal(value.pair_labels, [-1, 1])
    np.testing.assert_array_equal(value.quadruplets, [[0, 1, 2, 3]])
    np.testing.assert_array_equal(value.weights, [1, 2, 3, 4, 5])
    assert value.n_points == 6
    assert value.n_constraints == 5
    assert {getattr(value, name).dtype for name in ARRAYS[:-1]} == {np.dtype(np.int64)}
    assert value.weights.dtype == np.float64


def test_what_is_absent_is_an_empty_array_of_the_right_width():
    value = Constraints(triplets=np.array([[0, 1, 2]], np.uint8))
    assert value.pairs.shape == (0, 2)
    assert value.pair_labels.shape == (0,)
    assert value.quadruplets.shape == (0, 4)
    assert value.weights.tolist() == [1.0]
    assert value.ids is None
    assert Constraints(triplets=[[0, 1, 2]], pairs=np.empty((0, 2))) == value


def test_points_are_counted_by_the_highest_row_or_the_ids():
    assert Constraints(triplets=[[0, 1, 2]], pairs=[[8, 1]], pair_labels=[1]).n_points == 9
    assert Constraints(quadruplets=[[0, 7, 0, 2]]).n_points == 8
    assert Constraints(triplets=[[0, 1, 2]], ids=list("abcde")).n_points == 5


@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"triplets": [[0, 1]]}, ValueError, r"shape \(n_triplets, 3\).*\(1, 2\)"),
        ({"triplets": [[0, 1, 2], [0, 1]]}, ValueError, "different lengths"),
        ({"triplets": [[0.0, 1.0, 2.0]]}, TypeError, "dtype float64"),
        ({"triplets": [[0, 1, 6]]}, ValueError, "row 6, but X has 6 rows"),
        ({"triplets": [[0, 1, -1]]}, ValueError, "row -1"),
        ({"triplets": [[0, 1, 2], [0, 1, 1]]}, ValueError, r"triplet 1 is \(0, 1, 1\)"),
        ({"pairs": [[0, 0], [1, 2]]}, ValueError, r"pair 0 is \(0, 0\)"),
        ({"pair_labels": None}, ValueError, "Pass pairs= and pair_labels= together"),
        ({"pair_labels": [0, -1]}, ValueError, "Does 0 mean dissimilar, or not known"),
        ({"pair_labels": [1]}, ValueError, "for 2 pairs"),
        ({"pairs": None}, ValueError, "pair_labels belong to pairs"),
        ({"quadruplets": [[0, 1, 2]]}, ValueError, r"shape \(n_quadruplets, 4\).*\(1, 3\)"),
        ({"quadruplets": [[0, 1, 2, 3], [0]]}, ValueError, "different lengths"),
        ({"quadruplets": [["a", "b", "c", "d"]]}, ValueError, "holds names, .* pass ids="),
        ({"quadruplets": [[0, 1, 2, 9]]}, ValueError, "row 9, but X has 6 rows"),
        ({"quadruplets": [[0, 1, 2, -3]]}, ValueError, "row -3"),
        ({"quadruplets": [[0, 0, 2, 3]]}, ValueError, r"quadruplet 0 is \(0, 0, 2, 3\)"),
        ({"quadruplets": [[0, 1, 3, 3]]}, ValueError, "must differ"),
        ({"quadruplets": [[0, 1, 1, 0]]}, ValueError, "The two pairs of a quadruplet must differ"),
        (
            {"weights": [1.0]},
            ValueError,
            r"5 for 2 triplets, 2 pairs.*; got shape \(1,\)",
        ),
        ({"weights": [1, 1, 1, 1, 0]}, ValueError, "got 0 at place 4. Weights are finite"),
        ({"weights": [1, 1, np.nan, 1, 1]}, ValueError, "got nan at place 2"),
        ({"weights": [1, 1, np.inf, 1, 1]}, ValueError, "got inf at place 2"),
        ({"weights": [1, 1, 1, 1e101, 1]}, ValueError, "got 1e.101 at place 3.*from 1e-100 to"),
        ({"weights": list("abcde")}, TypeError, "dtype <U1"),
        ({"weights": [[1], [1, 2]]}, ValueError, "different lengths"),
        ({"n_points": 6.0}, TypeError, "n_points"),
        ({"n_points": 0}, ValueError, "n_points"),
        ({"ids": list("abcde")}, ValueError, "5 ids, but n_points is 6"),
        ({"ids": list("abcdea")}, ValueError, "'a' occurs 2 times"),
        ({"ids": [1, 2, 3, 4, 5, "6"]}, TypeError, "int and str"),
        ({"ids": [1.0, 2, 3, 4, 5, 6]}, TypeError, "float and int"),
        ({"ids": [True, False]}, TypeError, "bool"),
        ({"ids": ["a", "b", "c", "d", "e", ""]}, ValueError, "empty"),
        ({"ids": [["a", "b"]]}, ValueError, r"shape \(1, 2\)"),
    ],
)
def test_wrong_parts_are_refused_with_what_came(changes, kind, message):
    with pytest.raises(kind, match=message):
        small(**changes)


def test_nothing_at_all_is_refused():
    for nothing in ({}, {"triplets": []}, {"n_points": 4}, {"pairs": np.empty((0, 2))}):
        with pytest.raises(ValueError, match="got none of them"):
            Constraints(**nothing)


def test_arrays_are_borrowed_for_a_call_without_a_copy_but_not_without_a_check():
    triplets = np.array([[0, 1, 2], [3, 2, 0]])
    borrowed = Constraints.borrow(6, triplets=triplets)
    assert borrowed == Constraints(triplets=triplets, n_points=6)
    assert np.shares_memory(borrowed.triplets, triplets)
    assert np.shares_memory(Constraints.of_triplets(triplets, 6).triplets, triplets)
    with pytest.raises(ValueError, match="row 3, but X has 3 rows"):
        Constraints.borrow(3, triplets=triplets)
    with pytest.raises(ValueError, match="constraint_weight must hold one positive number"):
        Constraints.borrow(6, "constraint_weight", triplets=triplets, weights=[1.0])


def test_the_same_constraints_may_be_about_more_rows():
    wider = small(ids=list("abcdef")).about(9)
    assert wider == small(n_points=9)
    assert small().about(6) == small()


def test_pairs_of_a_quadruplet_may_share_a_point():
    assert Constraints(quadruplets=[[0, 1, 0, 2]]).n_constraints == 1


# A value


def test_nothing_can_be_changed_neither_here_nor_through_what_was_passed():
    triplets, names = np.array([[0, 1, 2]]), np.array(["a", "b", "c"])
    value = Constraints(triplets=triplets, ids=names)
    triplets[:], names[:] = 7, "z"
    assert value == Constraints(triplets=[[0, 1, 2]], ids=["a", "b", "c"])
    for again in (value, pickle.loads(pickle.dumps(value)), value.restrict([0, 1, 2])):
        for name in (*ARRAYS, "ids"):
            array = getattr(again, name)
            with pytest.raises(ValueError, match="read-only"):
                array[...] = array
    with pytest.raises(FrozenInstanceError):
        value.n_points = 9


def test_equal_only_if_every_part_is():
    assert small() == small()
    others = [
        small(triplets=[[0, 1, 2], [3, 2, 1]]),
        small(pairs=[[3, 0], [1, 2]]),
        small(pair_labels=[1, 1]),
        small(quadruplets=[[0, 1, 3, 2]]),
        small(weights=None),
        small(n_points=7),
        small(ids=list("abcdef")),
    ]
    for other in others:
        assert small() != other
    assert small(ids=list("123456")) != small(ids=[1, 2, 3, 4, 5, 6])
    assert small() != "constraints"


def test_repr_tells_how_many_there_are_of_each_kind():
    assert repr(small()) == "Constraints(2 triplets, 2 pairs, 1 quadruplet, n_points=6)"
    assert repr(small().select([])) == "Constraints(none, n_points=6)"


@given(constraints())
def test_pickles_and_copies_are_equal(value):
    for again in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), copy.copy(value)):
        assert again == value


# With scikit-learn


class Recorder(ClassifierMixin, BaseEstimator):
    """Keeps what reached its fit."""

    def __init__(self, held=None):
        self.held = held

    def fit(self, X, y, constraints=None):
        self.classes_, self.n_rows_, self.seen_ = np.unique(y), len(X), constraints
        return self

    def predict(self, X):
        return np.zeros(len(X), int)


@pytest.mark.parametrize("n_constraints", [10, 7])
def test_cross_validation_passes_it_on_whole(n_constraints):
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    value = Constraints.from_labels(y, n=n_constraints, random_state=0)
    results = cross_validate(
        Recorder(), X, y, params={"constraints": value}, cv=KFold(5), return_estimator=True
    )
    assert [model.n_rows_ for model in results["estimator"]] == [8] * 5
    assert all(model.seen_ == value for model in results["estimator"])


def test_an_array_of_the_same_length_would_have_been_cut():
    # The danger that the value is there to avert.
    X, y = np.arange(20.0).reshape(10, 2), np.arange(10) % 2
    triplets = Constraints.from_labels(y, n=10, random_state=0).triplets
    results = cross_validate(
        Recorder(), X, y, params={"constraints": triplets}, cv=KFold(5), return_estimator=True
    )
    assert [len(model.seen_) for model in results["estimator"]] == [8] * 5


def test_survives_the_clone_of_an_estimator_that_holds_it():
    assert clone(Recorder(held=small())).held == small()


# Counts


def literal_counts(value):
    """The counts by loops over statements in one canonical form."""
    supervision = []
    for row in value.comparisons().tolist():
        supervision.append(("compares", frozenset(row[:2]), frozenset(row[2:])))
    for row, label in zip(value.pairs.tolist(), value.pair_labels.tolist(), strict=True):
        supervision.append(("pair", frozenset(row), label))
    distinct = set(supervision)
    couples = 0
    for one, other in combinations(distinct, 2):
        if one[0] == other[0] == "compares":
            couples += one[1:] == other[:0:-1]
        elif one[0] == other[0] == "pair":
            couples += one[1] == other[1]
    named = {int(p) for part in (value.triplets, value.pairs, value.quadruplets) for p in part.flat}
    return ConstraintCounts(
        triplets=len(value.triplets),
        similar_pairs=sum(label == 1 for label in value.pair_labels),
        dissimilar_pairs=sum(label == -1 for label in value.pair_labels),
        quadruplets=len(value.quadruplets),
        points=len(named),
        duplicates=len(supervision) - len(distinct),
        contradictions=couples,
    )


@given(constraints(max_points=4))
def test_counts_are_those_of_the_loops(value):
    assert value.counts() == literal_counts(value)


def test_a_triplet_and_the_quadruplet_of_the_same_meaning_are_one_comparison():
    counts = Constraints(triplets=[[0, 1, 2]], quadruplets=[[1, 0, 2, 0], [0, 2, 1, 0]]).counts()
    assert (counts.duplicates, counts.contradictions) == (1, 1)


def test_counts_hold_where_numbers_of_comparisons_would_overflow():
    far = 2**31 - 1
    value = Constraints(triplets=[[far, 0, 1], [far, 1, 0], [far, 0, 1], [far - 1, 0, 1]])
    assert count_repeated_comparisons(value.comparisons(), value.n_points) == (1, 1)


def test_many_triplets_are_counted_at_two_hundred_thousand_a_second():
    value = Constraints.from_labels(np.arange(50_000) % 10, n=200_000, random_state=0)
    begin = time.process_time()
    counts = value.counts()
    assert time.process_time() - begin < 1
    assert counts.triplets == 200_000
    assert counts.contradictions == 0


# Parts of it


def test_comparisons_are_the_near_and_the_far_pair():
    np.testing.assert_array_equal(small().comparisons(), [[0, 1, 0, 2], [3, 2, 3, 0], [0, 1, 2, 3]])


@given(constraints(), st.data())
def test_select_keeps_what_is_asked_for_in_order_of_kind(value, data):
    indices = st.lists(st.integers(0, value.n_constraints - 1), max_size=20)
    which = data.draw(indices)
    supervision = statements(value)
    kinds = ("triplet", "pair", "quadruplet")
    wanted = [supervision[i] for kind in kinds for i in which if supervision[i][0][0] == kind]
    chosen = value.select(which)
    assert statements(chosen) == wanted
    assert chosen.n_points == value.n_points
    mask = np.isin(np.arange(value.n_constraints), which)
    assert value.select(mask) == value.select(np.flatnonzero(mask))
    assert value.select(mask).n_constraints + value.select(~mask).n_constraints == len(supervision)


@given(constraints(), st.data())
def test_restrict_keeps_what_is_among_the_points_and_renumbers_it(value, data):
    points = data.draw(st.permutations(range(value.n_points)))
    points = points[: data.draw(st.integers(0, value.n_points))]
    wanted = []
    for (kind, *numbers), weight in statements(value):
        members = numbers[:2] if kind == "pair" else numbers
        if all(member in points for member in members):
            rest = numbers[len(members) :]
            wanted.append(((kind, *[points.index(m) for m in members], *rest), weight))
    few = value.restrict(points)
    assert statements(few) == wanted
    assert few.n_points == len(points)
    mask = np.isin(np.arange(value.n_points), points)
    assert value.restrict(mask) == value.restrict(np.sort(points).astype(int))


def test_restricted_constraints_name_the_same_points():
    value = small(ids=list("uvwxyz"))
    few = value.restrict([4, 3, 0, 2])
    assert few.ids.tolist() == list("yxuw")
    assert few.ids[few.triplets].tolist() == [["x", "w", "u"]]
    assert few.ids[few.pairs].tolist() == [["u", "x"]]
    assert few.weights.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    ("which", "kind", "message"),
    [
        ([True, False], ValueError, "mask of 5 booleans.*got 2 booleans"),
        ([5], ValueError, "from 0 to 4; got 5"),
        ([-1], ValueError, "got -1"),
        ([0.5], TypeError, "dtype float64"),
        ([[0]], ValueError, r"shape \(1, 1\)"),
    ],
)
def test_wrong_selections_are_refused(which, kind, message):
    with pytest.raises(kind, match=message):
        small().select(which)


def test_points_of_a_restriction_must_be_distinct():
    with pytest.raises(ValueError, match="at most once"):
        small().restrict([0, 1, 0])


# Noise


@given(constraints(), st.floats(0, 1), st.integers(0, 9))
def test_noise_reverses_exactly_its_share(value, rate, seed):
    noisy, flipped = value.with_noise(rate, seed)
    assert flipped.sum() == round(rate * value.n_constraints)
    for old, new, is_flipped in zip(statements(value), statements(noisy), flipped, strict=True):
        (kind, *numbers), weight = old
        if is_flipped and kind == "pair":
            numbers[2] *= -1
        elif is_flipped:
            a, b, c, *d = numbers
            numbers = [a, c, b] if kind == "triplet" else [c, *d, a, b]
        assert new == ((kind, *numbers), weight)
    assert noisy.n_points == value.n_points


def test_noise_is_a_share():
    with pytest.raises(ValueError, match="between 0 and 1, got 15"):
        small().with_noise(15)


# From labels


@given(
    st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=5, max_size=30),
    st.sampled_from(["triplets", "pairs", "quadruplets"]),
    st.integers(1, 80),
)
def test_labels_say_what_is_near(labels, kind, n):
    y = np.array([0, 0, 1, *labels])
    value = Constraints.from_labels(y, kind=kind, n=n, random_state=1)
    assert value.n_constraints == len(getattr(value, kind)) == n
    assert value.n_points == len(y)
    rows = value.comparisons()
    near, far = rows[:, :2], rows[:, 2:]
    if kind == "pairs":
        near, far = value.pairs[value.pair_labels > 0], value.pairs[value.pair_labels < 0]
        assert len(near) - len(far) in (0, 1)
    assert np.all(y[near[:, 0]] == y[near[:, 1]])
    assert np.all(y[far[:, 0]] != y[far[:, 1]])
    assert np.all(y[np.concatenate([near, far])] != -1)
    often = np.bincount(near[:, 0], minlength=len(y))[[np.sum(y == c) > 1 and c >= 0 for c in y]]
    assert often.max() - often.min() <= 1


def test_every_partner_is_drawn_equally_often():
    y = np.array([0, 0, 0, 1, 1, 2])
    value = Constraints.from_labels(y, n=50_000, random_state=0)
    counted = Counter(map(tuple, value.triplets.tolist()))
    expected = {}
    for a in range(5):
        near = [b for b in range(6) if y[b] == y[a] and b != a]
        far = [c for c in range(6) if y[c] != y[a]]
        expected |= {(a, b, c): 10_000 / len(near) / len(far) for b in near for c in far}
    assert counted.keys() == expected.keys()
    for triplet, wanted in expected.items():
        assert abs(counted[triplet] - wanted) < 5 * np.sqrt(wanted)


def test_ten_for_each_point_with_a_partner_unless_told_and_the_seed_decides():
    y = [0, 0, 1, 1, 1, 2, -1]
    assert Constraints.from_labels(y, random_state=0).n_constraints == 50
    draw = [Constraints.from_labels(y, random_state=seed) for seed in (3, 3, 4)]
    assert draw[0] == draw[1] != draw[2]


def test_labels_may_be_words():
    y = np.array(["cat", "cat", "dog", "dog"])
    a, b, c = Constraints.from_labels(y, n=20, random_state=0).triplets.T
    assert np.all(y[a] == y[b])
    assert np.all(y[a] != y[c])


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: Constraints.from_labels([0, 0, 1], kind="chunks"), ValueError, "got 'chunks'"),
        (lambda: Constraints.from_labels([0, 0, 1], n=0), ValueError, "n must be at least 1"),
        (lambda: Constraints.from_labels([0, 0, 1], n=2.5), TypeError, "integer.*got 2.5"),
        (lambda: Constraints.from_labels([0, 0]), ValueError, "at least two classes"),
        (lambda: Constraints.from_labels([[0, 0, 1]]), ValueError, r"shape \(1, 3\)"),
        (lambda: Constraints.from_neighbors([[0.0]], [0, 1]), ValueError, "1 rows of X"),
        (lambda: Constraints.from_neighbors([[np.nan]], [0]), ValueError, "NaN"),
        (lambda: Constraints.from_neighbors([[0.0]], [0], 0), ValueError, "n_similar"),
        (lambda: Constraints.from_chunks([]), ValueError, "got nothing"),
        (lambda: Constraints.from_chunks([0, 1, -1]), ValueError, "No chunk has two members"),
        (lambda: Constraints.from_chunks([0.5, 1]), TypeError, "dtype float64"),
        (lambda: Constraints.from_chunks([0, 0, -2]), ValueError, "got -2"),
        (lambda: Constraints.from_chunks([0, 0], n_points=3), ValueError, "hold 2 points"),
        (lambda: Constraints.from_chunks([[0, 1], [1, 2]]), ValueError, "Row 1 is in"),
        (lambda: Constraints.from_chunks([[0, 9]], n_points=5), ValueError, "row 9"),
        (lambda: Constraints.from_chunks([[0, -1]]), ValueError, "row -1"),
        (lambda: Constraints.from_chunks([["a", "b"]]), TypeError, "other things"),
        (lambda: Constraints.from_chunks([[0, 1], [2]], n_pairs=4), ValueError, "at most the 3"),
        (lambda: Constraints.from_oracle(1, 5, 3), TypeError, "function of three arrays"),
        (lambda: Constraints.from_oracle(max, 2, 1), ValueError, "at most the 0"),
        (lambda: Constraints.from_oracle(max, 3, 4), ValueError, "at most the 3"),
        (lambda: Constraints.from_oracle(lambda *abc: abc[0], 5, 3), TypeError, "dtype int64"),
        (lambda: Constraints.from_oracle(lambda *_: True, 5, 3), TypeError, "vectorize"),
    ],
)
def test_what_nothing_can_be_drawn_from_is_refused(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


def test_neighbours_are_those_of_neighbor_triplets():
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.arange(30) % 3
    value = Constraints.from_neighbors(X, y, 2, 4)
    np.testing.assert_array_equal(value.triplets, neighbor_triplets(X, y, 2, 4))
    assert value.n_points == 30


# From chunks


@given(st.lists(st.integers(-1, 3), min_size=2, max_size=15), st.data())
def test_pairs_within_and_between_chunks_each_once(groups, data):
    groups = [0, 0, *groups]
    couples = [
        (i, j) for i, j in combinations(range(len(groups)), 2) if -1 not in (groups[i], groups[j])
    ]
    within = {frozenset(c) for c in couples if groups[c[0]] == groups[c[1]]}
    between = {frozenset(c) for c in couples} - within
    n_pairs = data.draw(st.integers(1, len(couples)))
    value = Constraints.from_chunks(groups, n_pairs=n_pairs, random_state=0)
    assert value.n_points == len(groups)
    similar = [frozenset(pair) for pair in value.pairs[value.pair_labels > 0].tolist()]
    dissimilar = [frozenset(pair) for pair in value.pairs[value.pair_labels < 0].tolist()]
    assert len(similar) + len(dissimilar) == n_pairs
    assert len(set(similar)) == len(similar)
    assert set(similar) <= within
    assert len(set(dissimilar)) == len(dissimilar)
    assert set(dissimilar) <= between
    half = n_pairs - n_pairs // 2
    if len(within) >= half and len(between) >= half:
        assert len(similar) == half


def test_all_pairs_within_few_chunks_and_as_many_between():
    counts = Constraints.from_chunks([[0, 1, 2], [3, 4]], n_points=9, random_state=0).counts()
    assert (counts.similar_pairs, counts.dissimilar_pairs, counts.duplicates) == (4, 4, 0)
    alone = Constraints.from_chunks([[2, 5, 7]])
    assert (alone.n_constraints, alone.n_points) == (3, 8)


def test_chunks_as_lists_and_as_an_array_are_the_same():
    lists = Constraints.from_chunks([[0, 4], [1, 2, 5]], n_points=7, random_state=0)
    assert lists == Constraints.from_chunks([0, 1, 1, -1, 0, 1, -1], random_state=0)


# From an oracle


@given(st.integers(3, 9), st.data())
def test_the_oracle_decides_each_question_once(n_points, data):
    n = data.draw(st.integers(1, n_points * (n_points - 1) * (n_points - 2) // 2))
    x = np.arange(n_points) ** 1.5
    asked = []

    def nearer(a, b, c):
        asked.append(np.column_stack([a, b, c]))
        return abs(x[a] - x[b]) < abs(x[a] - x[c])

    value = Constraints.from_oracle(nearer, n_points, n, random_state=0)
    a, b, c = value.triplets.T
    assert np.all(abs(x[a] - x[b]) <= abs(x[a] - x[c]))
    assert len(asked) == 1
    questions = {(a, frozenset((b, c))) for a, b, c in asked[0].tolist()}
    assert len(questions) == n == value.n_constraints
    assert questions == {(a, frozenset((b, c))) for a, b, c in value.triplets.tolist()}


def test_a_function_of_numbers_serves_as_an_oracle_once_wrapped():
    def one(a, b, c):
        return abs(int(a) - int(b)) < abs(int(a) - int(c))

    wrapped = np.vectorize(one, otypes=[bool])
    value = Constraints.from_oracle(wrapped, 20, 50, random_state=0)
    a, b, c = value.triplets.T
    assert np.all(abs(a - b) <= abs(a - c))


def test_the_nearer_point_stands_in_either_place_of_a_question():
    asked = []
    Constraints.from_oracle(
        lambda a, b, c: asked.append((b < c).mean()) or (a < b), 50, 1000, random_state=0
    )
    assert 0.4 < asked[0] < 0.6


# Columns


@given(value=constraints(), data=st.data())
@settings(max_examples=100)
def test_columns_follow_their_constraints_through_every_change(value, data):
    """A column that repeats what is said must still do so after any selection."""
    tags = [f"{supervision} {weight}" for supervision, weight in statements(value)]
    tagged = value._replaced(columns={"tag": np.array(tags, object)})
    which = data.draw(st.lists(st.integers(0, len(tags) - 1)))
    some = tagged.select(which)
    assert some.columns["tag"].tolist() == [
        f"{supervision} {weight}" for supervision, weight in statements(some)
    ]
    points = data.draw(st.permutations(range(value.n_points)))
    inside = tagged.restrict(points[:-1])
    back = inside._replaced(
        **{
            name: np.asarray(points)[getattr(inside, name)]
            for name in ("triplets", "pairs", "quadruplets")
        }
    )
    assert back.columns["tag"].tolist() == [
        f"{supervision} {weight}" for supervision, weight in statements(back)
    ]
    assert tagged.about(value.n_points + 3).columns["tag"].tolist() == tags
    assert pickle.loads(pickle.dumps(tagged)) == tagged
    assert tagged.with_noise(0.5)[0].columns["tag"].tolist() == tags


def test_columns_are_checked_and_cannot_be_changed():
    value = small(columns={"who": np.array(["ann", None, 3, "bob", float("nan")], object)})
    assert value.columns["who"].tolist() == ["ann", "", "3", "bob", ""]
    assert value != small()
    with pytest.raises(ValueError, match="read-only"):
        value.columns["who"][0] = "eve"
    with pytest.raises(TypeError):
        value.columns["who"] = 1
    with pytest.raises(ValueError, match=r"each of the 5 constraints; column 'who' has shape \(4,"):
        small(columns={"who": [1, 2, 3, 4]})
    with pytest.raises(ValueError, match="got the name 'Weight'"):
        small(columns={"Weight": [1, 2, 3, 4, 5]})
    with pytest.raises(TypeError, match=r"columns must map names .* got list"):
        small(columns=["who"])


# Joined


@given(st.lists(constraints(), min_size=1, max_size=4))
def test_joined_constraints_are_those_of_the_parts_in_order(parts):
    n_points = max(part.n_points for part in parts)
    parts = [part.about(n_points) for part in parts]
    joined = Constraints.concat(parts)
    for name in ("triplets", "pairs", "pair_labels", "quadruplets"):
        every = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(getattr(joined, name), every)
    sizes = [[len(p.triplets), len(p.pairs), len(p.quadruplets)] for p in parts]
    kinds = [np.repeat([0, 1, 2], size) for size in sizes]
    order = np.argsort(np.concatenate(kinds), kind="stable")
    weights = np.concatenate([part.weights for part in parts])
    np.testing.assert_array_equal(joined.weights, weights[order])


def test_columns_that_a_part_does_not_have_are_empty_in_the_whole():
    one = Constraints(triplets=[[0, 1, 2]], columns={"who": ["ann"]})
    two = Constraints(triplets=[[1, 0, 2]], columns={"seconds": [2.5]})
    joined = Constraints.concat([one, two])
    assert joined.columns["who"].tolist() == ["ann", ""]
    assert joined.columns["seconds"].tolist() == ["", "2.5"]


def test_answers_of_two_parts_are_not_taken_for_one_undecided_answer():
    """Each part numbers its answers from 0; opposite answers of two parts are a contradiction."""
    one = Constraints.from_votes([[0, 1, 2]], [[1, 0]], n_points=3)
    two = Constraints.from_votes([[0, 1, 2], [0, 1, 2]], [[0, 1], [1, 1]], n_points=3)
    plain = Constraints(triplets=[[2, 1, 0]])
    joined = Constraints.concat([one, two, plain])
    assert joined.columns["answer_number"].tolist() == [0, 1, 2, 2, 3]
    counts = joined.counts()
    assert (counts.ties, counts.contradictions) == (1, 1)


def test_constraints_of_other_points_are_not_joined():
    one = Constraints(triplets=[[0, 1, 2]])
    for other in (
        Constraints(triplets=[[0, 1, 3]]),
        Constraints(triplets=[[0, 1, 2]], ids=list("abc")),
    ):
        with pytest.raises(ValueError, match="joins constraints of the same points"):
            Constraints.concat([one, other])
    for nothing in ([], [one, [[0, 1, 2]]]):
        with pytest.raises(TypeError, match="joins a list of Constraints, got"):
            Constraints.concat(nothing)
