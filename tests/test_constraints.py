"""Grouping of triplets, and drawing them from labels."""

import tracemalloc
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from suite.lists import far_lists

from mdaml import GMML
from mdaml.constraints import labels, neighbor_triplets, sample_triplets
from mdaml.constraints.comparisons import Comparisons, PairSet
from mdaml.constraints.labels import Classes, find_labelled
from mdaml.constraints.matching import to_pair_sets
from mdaml.constraints.value import Constraints
from mdaml.neighbors import search, trees

FIELDS = ("pairs", "starts", "far", "groups")


def random_triplets(seed, n_samples=30, n_triplets=200):
    rng = np.random.default_rng(seed)
    return np.array([rng.choice(n_samples, 3, replace=False) for _ in range(n_triplets)])


def ungrouped(grouped):
    """Return all triplets of Comparisons, each as often as it occurs."""
    lists = far_lists(grouped.starts, grouped.far)
    return Counter(
        (int(anchor), int(similar), int(grouped.pairs[row, 1]))
        for (anchor, similar), rows in zip(grouped.pairs, lists, strict=True)
        for row in rows
    )


def counted(triplets):
    return Counter(map(tuple, np.asarray(triplets).tolist()))


def assert_same_bits(one, other):
    for field in FIELDS:
        a, b = getattr(one, field), getattr(other, field)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b, err_msg=field)


seeds = st.integers(0, 2**32 - 1)


@st.composite
def triplet_arrays(draw):
    """Triplets of few samples and fewer anchors, so that lists of far pairs often look alike."""
    n_samples, n_anchors = draw(st.integers(3, 8)), draw(st.integers(1, 3))
    n_triplets, rng = draw(st.integers(1, 60)), np.random.default_rng(draw(seeds))
    anchors = rng.integers(0, n_anchors, n_triplets)
    others = rng.permuted(np.tile(np.arange(n_samples - 1), (n_triplets, 1)), axis=1)[:, :2]
    return np.column_stack([anchors, others + (others >= anchors[:, None])]), n_samples


# Comparisons of triplets


@given(triplet_arrays())
def test_grouping_keeps_the_triplets_and_sorts_their_distinct_pairs(case):
    triplets, n_samples = case
    grouped = Comparisons.from_triplets(triplets, n_samples)
    assert ungrouped(grouped) == counted(triplets)
    assert grouped.total == len(triplets)
    assert grouped.n_samples == n_samples
    expected = np.unique(np.concatenate([triplets[:, [0, 1]], triplets[:, [0, 2]]]), axis=0)
    np.testing.assert_array_equal(grouped.pairs, expected)


@given(triplet_arrays())
def test_groups_part_the_pairs_by_anchor_and_far_pairs_stay_in_their_group(case):
    triplets, n_samples = case
    grouped = Comparisons.from_triplets(triplets, n_samples)
    pairs, groups = grouped.pairs, grouped.groups
    lists = far_lists(grouped.starts, grouped.far)
    assert groups[0] == 0
    assert groups[-1] == len(pairs)
    anchors = []
    for start, stop in pairwise(groups):
        assert start < stop
        assert len(set(pairs[start:stop, 0].tolist())) == 1
        anchors.append(int(pairs[start, 0]))
        for rows in lists[start:stop]:
            assert np.all((rows >= start) & (rows < stop))
    assert anchors == sorted(set(triplets[:, 0].tolist()))


@given(triplet_arrays(), seeds)
def test_the_order_of_the_triplets_does_not_matter(case, seed):
    triplets, n_samples = case
    shuffled = np.random.default_rng(seed).permutation(triplets)
    assert_same_bits(
        Comparisons.from_triplets(triplets, n_samples),
        Comparisons.from_triplets(shuffled, n_samples),
    )


def test_no_triplets_make_no_pairs():
    grouped = Comparisons.from_triplets(np.empty((0, 3), int), 5)
    assert len(grouped.pairs) == len(grouped.far) == grouped.total == 0
    assert grouped.groups.tolist() == [0]


@given(triplet_arrays())
def test_near_graph_lists_every_near_pair_from_both_ends(case):
    triplets, n_samples = case
    grouped = Comparisons.from_triplets(triplets, n_samples)
    indptr, samples, pairs = grouped.near_graph()
    assert len(indptr) == n_samples + 1
    listed = {
        (i, int(samples[e]), int(pairs[e]))
        for i in range(n_samples)
        for e in range(indptr[i], indptr[i + 1])
    }
    row_of = {pair: p for p, pair in enumerate(map(tuple, grouped.pairs.tolist()))}
    near = {tuple(pair) for pair in triplets[:, :2].tolist()}
    expected = {(a, b, row_of[a, b]) for a, b in near} | {(b, a, row_of[a, b]) for a, b in near}
    assert listed == expected
    assert len(samples) == len(pairs) == len(expected) == indptr[-1]


def test_grouping_leaves_the_triplets_it_was_given_unchanged():
    triplets = random_triplets(0)
    before = triplets.copy()
    Comparisons.from_triplets(triplets, 30)
    np.testing.assert_array_equal(triplets, before)


def test_near_pairs_with_the_same_far_pairs_share_one_list():
    y = np.arange(60) % 3
    triplets = sample_triplets(y, 5, 7, random_state=0)
    grouped = Comparisons.from_triplets(triplets, len(y))
    assert len(triplets) == 60 * 5 * 7
    assert len(grouped.far) == 60 * (7 + 4)  # one entry for each that shares
    np.testing.assert_array_equal(np.sort(grouped.near_totals())[-60 * 5 :], 7)
    assert len(grouped.pairs) == 60 * (5 + 7)


@pytest.mark.parametrize("other", [(3, 5), (4, 6), (3, 4, 6), (3,), (3, 6, 6)])
def test_lists_of_far_pairs_that_only_look_alike_are_kept_apart(other):
    triplets = [(0, 1, 3), (0, 1, 6), *((0, 2, r) for r in other)]
    grouped = Comparisons.from_triplets(np.array(triplets), 7)
    assert ungrouped(grouped) == Counter(triplets)


def test_repeated_triplets_keep_their_multiplicity():
    triplets = np.array([(0, 1, 2), (3, 4, 5), (0, 1, 2), (0, 2, 1), (0, 1, 2)])
    grouped = Comparisons.from_triplets(triplets, 6)
    assert ungrouped(grouped) == {(0, 1, 2): 3, (0, 2, 1): 1, (3, 4, 5): 1}
    assert grouped.total == 5


def test_a_pair_can_be_near_and_far():
    grouped = Comparisons.from_triplets(np.array([(0, 1, 2), (0, 2, 3)]), 4)
    assert ungrouped(grouped) == {(0, 1, 2): 1, (0, 2, 3): 1}
    np.testing.assert_array_equal(grouped.starts, [0, 1, 2, 2])


def test_one_triplet_makes_two_pairs_and_one_group():
    grouped = Comparisons.from_triplets(np.array([(4, 9, 2)]), 10)
    np.testing.assert_array_equal(grouped.pairs, [(4, 2), (4, 9)])
    np.testing.assert_array_equal(grouped.groups, [0, 2])
    assert ungrouped(grouped) == {(4, 9, 2): 1}
    assert grouped.total == 1


@pytest.mark.parametrize("n_samples", [30, 31, 500])
def test_samples_without_triplets_make_no_group(n_samples):
    grouped = Comparisons.from_triplets(random_triplets(1), n_samples)
    indptr, _, _ = grouped.near_graph()
    assert len(grouped.groups) - 1 == len(np.unique(random_triplets(1)[:, 0]))
    assert np.all(np.diff(indptr)[30:] == 0)


@pytest.mark.slow  # one compilation for each type
def test_the_integer_type_of_the_triplets_and_who_may_write_them_do_not_matter():
    triplets = random_triplets(2)
    expected = Comparisons.from_triplets(triplets, 30)
    read_only = triplets.copy()
    read_only.flags.writeable = False
    for same in (triplets.astype(np.int32), read_only):
        assert_same_bits(Comparisons.from_triplets(same, 30), expected)


def test_the_largest_group_and_list_are_stated_for_the_kernels():
    grouped = Comparisons.from_triplets(random_triplets(3), 30)
    widths = grouped.lists[-1]
    assert widths[0] == max(Counter(grouped.pairs[:, 0].tolist()).values())
    near = Counter(map(tuple, random_triplets(3)[:, :2].tolist()))
    assert widths[1] == max(near.values())


# sample_triplets


def unbalanced_labels(seed=0):
    """Classes of 40, 25, 9, 2 and 1 members, and 6 rows without a label, in random order."""
    y = np.repeat([3, 7, 0, 12, 5, -1], [40, 25, 9, 2, 1, 6])
    return np.random.default_rng(seed).permutation(y)


def partners(triplets, role):
    """The partners of each anchor in a role, over all its triplets."""
    return {int(i): triplets[triplets[:, 0] == i, role].tolist() for i in np.unique(triplets[:, 0])}


@pytest.mark.parametrize("pairing", ["grid", "zip"])
@pytest.mark.parametrize("seed", range(5))
def test_labels_are_respected(pairing, seed):
    y = unbalanced_labels(seed)
    anchor, similar, dissimilar = sample_triplets(y, 4, 6, pairing=pairing, random_state=seed).T
    assert np.all(y[anchor] == y[similar])
    assert np.all(y[anchor] != y[dissimilar])
    assert np.all(anchor != similar)


@pytest.mark.parametrize(
    ("pairing", "n_similar", "n_dissimilar", "expected"),
    [("grid", 4, 6, 24), ("grid", 1, 1, 1), ("zip", 4, 6, 6), ("zip", 6, 4, 6), ("zip", 1, 1, 1)],
)
def test_every_eligible_sample_is_an_anchor_equally_often(
    pairing, n_similar, n_dissimilar, expected
):
    y = unbalanced_labels()
    triplets = sample_triplets(y, n_similar, n_dissimilar, pairing=pairing, random_state=0)
    eligible = ~np.isin(y, [-1, 5])  # class 5 has a single member
    np.testing.assert_array_equal(
        np.bincount(triplets[:, 0], minlength=len(y)), expected * eligible
    )
    assert np.all(np.diff(triplets[:, 0]) >= 0)


def test_rows_without_a_label_take_no_part():
    y = unbalanced_labels()
    triplets = sample_triplets(y, 10, 40, random_state=0)
    assert np.all(y[triplets] != -1)


def test_the_member_of_a_single_class_is_only_dissimilar():
    y = unbalanced_labels()
    alone = int(np.flatnonzero(y == 5)[0])
    triplets = sample_triplets(y, 10, 40, random_state=0)
    assert alone not in triplets[:, :2]
    assert alone in triplets[:, 2]


def test_partners_are_distinct_where_there_are_enough_and_repeat_where_not():
    y = unbalanced_labels()
    similar = partners(sample_triplets(y, 9, 1, random_state=0), 1)
    for i, drawn in similar.items():
        pool = np.count_nonzero(y == y[i]) - 1
        assert len(drawn) == 9
        if pool >= 9:
            assert len(set(drawn)) == 9
        else:
            assert len(set(drawn)) <= pool
    for drawn in partners(sample_triplets(y, 1, 37, random_state=0), 2).values():
        assert len(set(drawn)) == 37  # even the class of 40 leaves 37 others


def test_dissimilar_partners_repeat_where_too_few():
    y = np.array([0, 0, 0, 0, 1])
    triplets = sample_triplets(y, 2, 5, random_state=0)
    assert np.all(triplets[:, 2] == 4)
    assert len(triplets) == 4 * 2 * 5


def test_a_pool_of_exactly_the_wanted_size_is_used_up():
    y = np.repeat([0, 1], [5, 6])
    triplets = sample_triplets(y, 4, 5, random_state=3)
    for i in range(5):
        assert set(partners(triplets, 1)[i]) == set(range(5)) - {i}
    for i in range(5, 11):
        assert set(partners(triplets, 2)[i]) == set(range(5))


def test_grid_combines_all_partners_of_an_anchor():
    y = np.arange(40) % 4
    triplets = sample_triplets(y, 3, 5, random_state=1)
    for i in range(40):
        own = triplets[triplets[:, 0] == i]
        assert counted(own[:, 1:]) == Counter(
            (int(j), int(r)) for j in np.unique(own[:, 1]) for r in np.unique(own[:, 2])
        )


def test_zip_takes_the_scarcer_partners_in_turn():
    y = np.arange(40) % 4
    for own in np.split(sample_triplets(y, 3, 7, pairing="zip", random_state=1), 40):
        assert sorted(Counter(own[:, 1].tolist()).values()) == [2, 2, 3]
        assert len(set(own[:, 2].tolist())) == 7


@pytest.mark.parametrize(("n_similar", "n_dissimilar"), [(1, 1), (3, 4), (7, 2)])
def test_every_partner_is_equally_likely(n_similar, n_dissimilar):
    # 8 and 12 members: 3 of 7 are distinct draws; 7 of 7 leave no choice at all.
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [8, 12]))
    n_rounds = 600
    counts = np.zeros((2, 20, 20))
    rng = np.random.default_rng(5)
    for _ in range(n_rounds):
        triplets = sample_triplets(y, n_similar, n_dissimilar, random_state=rng)
        np.add.at(counts[0], (triplets[:, 0], triplets[:, 1]), 1 / n_dissimilar)
        np.add.at(counts[1], (triplets[:, 0], triplets[:, 2]), 1 / n_similar)
    same = y[:, None] == y
    for count, allowed, n in (
        (counts[0], same & ~np.eye(20, dtype=bool), n_similar),
        (counts[1], ~same, n_dissimilar),
    ):
        pool = allowed.sum(axis=1, keepdims=True)
        expected = n_rounds * n / pool * allowed
        np.testing.assert_array_equal(count[~allowed], 0)
        variance = n_rounds * (n / pool) * (1 - n / pool)
        scores = ((count - expected) / np.sqrt(np.maximum(variance, 1e-9)))[allowed]
        assert np.abs(scores).max() < 5
        assert np.mean(scores**2) < 1.4  # about 1 by chance


def test_the_same_seed_draws_the_same_triplets():
    y = unbalanced_labels()
    first = sample_triplets(y, 4, 4, random_state=11)
    np.testing.assert_array_equal(first, sample_triplets(y, 4, 4, random_state=11))
    assert not np.array_equal(first, sample_triplets(y, 4, 4, random_state=12))


@pytest.mark.parametrize("kind", ["string", "object", "float", "bool", "list"])
def test_only_the_partition_into_classes_matters(kind):
    y = np.random.default_rng(0).permutation(np.repeat([0, 1], [14, 9]))
    same = {
        "string": np.array(["ant", "bee"])[y],
        "object": np.array(["ant", "bee"], dtype=object)[y],
        "float": y.astype(float),
        "bool": y == 1,
        "list": y.tolist(),
    }[kind]
    np.testing.assert_array_equal(
        sample_triplets(same, 3, 3, random_state=0), sample_triplets(y, 3, 3, random_state=0)
    )


def test_string_labels_of_minus_one_are_a_class_like_any_other():
    y = np.array(["-1", "1"] * 10)
    assert len(sample_triplets(y, 1, 1, random_state=0)) == 20


# neighbor_triplets


def brute_force_neighbors(X, y, n_similar, n_dissimilar):
    """Grid of the nearest partners, ties to the earlier row, repeated in turn if too few."""
    triplets = []
    for i in range(len(X)):
        same, other = np.flatnonzero(y == y[i]), np.flatnonzero((y != y[i]) & (y != -1))
        same = same[same != i]
        if y[i] == -1 or len(same) == 0:
            continue

        def nearest(pool, n, i=i):
            sq_dists = [np.sum((X[i] - X[j]) ** 2) for j in pool]
            ordered = pool[np.argsort(sq_dists, kind="stable")]
            return [ordered[m % len(pool)] for m in range(n)]

        triplets += [
            (i, j, r) for j in nearest(same, n_similar) for r in nearest(other, n_dissimilar)
        ]
    return np.array(triplets)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_neighbor_triplets_are_the_nearest_samples(seed, dtype):
    y = unbalanced_labels(seed)
    X = np.random.default_rng(seed).normal(size=(len(y), 4)).astype(dtype)
    np.testing.assert_array_equal(
        neighbor_triplets(X, y, 3, 5), brute_force_neighbors(X.astype(np.float64), y, 3, 5)
    )


@pytest.mark.parametrize("seed", range(2))
def test_ties_go_to_the_earlier_row(seed):
    y = unbalanced_labels(seed)
    X = np.random.default_rng(seed).integers(0, 3, size=(len(y), 2)).astype(float)
    np.testing.assert_array_equal(neighbor_triplets(X, y, 4, 6), brute_force_neighbors(X, y, 4, 6))


def test_coinciding_samples_are_neighbors_of_each_other_but_not_of_themselves():
    X = np.zeros((12, 3))
    y = np.arange(12) % 2
    triplets = neighbor_triplets(X, y, 3, 2)
    np.testing.assert_array_equal(triplets, brute_force_neighbors(X, y, 3, 2))
    assert np.all(triplets[:, 0] != triplets[:, 1])


def test_an_anchor_with_too_few_neighbors_repeats_them():
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    y = np.array([0, 0, 1, 0])
    np.testing.assert_array_equal(
        neighbor_triplets(X, y, 3, 2)[:6],
        [(0, 1, 2), (0, 1, 2), (0, 3, 2), (0, 3, 2), (0, 1, 2), (0, 1, 2)],
    )


def test_zip_pairs_the_neighbors_off_in_turn():
    X = np.array([[0.0], [1.0], [3.0], [7.0], [8.0]])
    y = np.array([0, 0, 0, 1, 1])
    np.testing.assert_array_equal(
        neighbor_triplets(X, y, 2, 1, pairing="zip")[:2], [(0, 1, 3), (0, 2, 3)]
    )


def test_neighbor_triplets_never_hold_all_distances():
    N = 3000
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(N, 2)), rng.integers(0, 3, N)
    neighbor_triplets(X[:100], y[:100], 2, 2)  # compiled before memory is watched
    tracemalloc.start()
    try:
        neighbor_triplets(X, y, 2, 2)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < N * N * 8 / 20


def test_zip_uses_every_similar_partner_equally_often():
    y = np.repeat(np.arange(600), 6)  # the same draw 3600 times
    anchor, similar, _ = sample_triplets(y, 3, 10, pairing="zip", random_state=0).T
    place = similar % 6 - (similar > anchor)  # among the five others of the class
    counts = np.bincount(place, minlength=5)
    np.testing.assert_allclose(counts / counts.sum(), 0.2, atol=0.008)


def test_zip_pairs_every_similar_with_every_dissimilar_partner_equally_often():
    y = np.repeat([0, 1], [6, 5])
    counts, rng = np.zeros((5, 5)), np.random.default_rng(0)
    for _ in range(500):
        triplets = sample_triplets(y, 3, 3, pairing="zip", random_state=rng)
        anchor, similar, dissimilar = triplets[triplets[:, 0] < 6].T
        np.add.at(counts, (similar - (similar > anchor), dissimilar - 6), 1)
    np.testing.assert_allclose(25 * counts / counts.sum(), 1, atol=0.3)


def test_zip_draws_at_random_even_if_the_pools_are_used_up():
    y = np.repeat([0, 1], [4, 3])
    draws = {
        sample_triplets(y, 3, 3, pairing="zip", random_state=seed)[:3].tobytes()
        for seed in range(50)
    }
    assert len(draws) > 1


@pytest.mark.parametrize("y", [np.zeros(60, int), np.arange(60)], ids=["one class", "a class each"])
@pytest.mark.parametrize(
    "draw",
    [lambda y: sample_triplets(y, 2, 2), lambda y: neighbor_triplets(np.eye(60), y, 2, 2)],
    ids=["sample", "neighbor"],
)
def test_labels_without_a_triplet_are_refused_in_words(draw, y):
    with pytest.raises(ValueError, match="class"):
        draw(y)


def test_minus_one_is_unlabelled_among_objects_too():
    y = np.where(np.arange(60) < 40, np.arange(60) % 3, -1).astype(object)
    assert sample_triplets(y, 2, 2, random_state=0).max() < 40


# Comparisons from lists of partners


@st.composite
def partner_lists(draw):
    """Near partners of all samples, far partners of the anchors from some sample on."""
    n_samples, k = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(seeds))
    cut = rng.integers(1, n_samples)  # near partners below, far ones from here on
    begin, end = np.sort(rng.choice(n_samples + 1, 2, replace=False))
    near = np.full((n_samples, k), -1)
    for row in near:
        n = rng.integers(0, min(k, cut) + 1)
        row[:n] = rng.choice(cut, n, replace=False)
    others = [np.flatnonzero(rng.random(n_samples - cut) < 0.5) + cut for _ in range(begin, end)]
    return near, int(begin), [some.tolist() for some in others]


@given(partner_lists())
def test_from_lists_joins_every_near_with_every_far_partner(case):
    near, begin, lists = case
    indptr = np.append(0, np.cumsum([len(others) for others in lists]))
    others = np.array([r for others in lists for r in others], np.int32)
    grouped = Comparisons.from_lists(near, begin, indptr, others)
    expected = [
        (begin + a, j, r)
        for a, others in enumerate(lists)
        for j in near[begin + a].tolist()
        for r in others
        if j >= 0
    ]
    assert ungrouped(grouped) == Counter(expected)
    assert grouped.total == len(expected)
    assert grouped.n_samples == len(near)
    if expected:
        same = Comparisons.from_triplets(np.array(expected), len(near))
        np.testing.assert_array_equal(
            np.unique(grouped.pairs, axis=0), np.unique(same.pairs, axis=0)
        )
        assert len(grouped.pairs) == len(same.pairs)
        np.testing.assert_array_equal(grouped.groups, same.groups)
        np.testing.assert_array_equal(grouped.lists[-1], same.lists[-1])


def test_from_lists_keeps_one_list_of_far_pairs_for_all_near_pairs_of_an_anchor():
    near = np.array([[1, 2], [0, 2], [0, 1], [-1, -1], [-1, -1]])
    grouped = Comparisons.from_lists(near, 0, np.array([0, 2, 2, 3]), np.array([3, 4, 4], np.int32))
    assert ungrouped(grouped) == counted(
        [(0, 1, 3), (0, 1, 4), (0, 2, 3), (0, 2, 4), (2, 0, 4), (2, 1, 4)]
    )
    np.testing.assert_array_equal(grouped.far, [2, 3, -2, 6, 6])  # of one, each has its own
    np.testing.assert_array_equal(grouped.groups, [0, 4, 7])


# PairSet


@st.composite
def pair_arrays(draw):
    n_samples, n_pairs = draw(st.integers(2, 8)), draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(seeds))
    return np.array([rng.choice(n_samples, 2, replace=False) for _ in range(n_pairs)]), n_samples


@given(pair_arrays())
def test_pairs_are_counted_in_either_order(case):
    pairs, n_samples = case
    made = PairSet.from_pairs(pairs, n_samples)
    expected = Counter((min(pair), max(pair)) for pair in pairs.tolist())
    found = dict(zip(map(tuple, made.pairs.tolist()), made.counts.tolist(), strict=True))
    assert found == expected
    assert made.total == len(pairs)
    np.testing.assert_array_equal(made.pairs, sorted(expected))


@given(pair_arrays())
def test_groups_part_the_pairs_by_their_lower_row(case):
    made = PairSet.from_pairs(*case)
    parts = [set(made.pairs[a:b, 0].tolist()) for a, b in pairwise(made.groups)]
    assert all(len(part) == 1 for part in parts)
    assert len(set().union(*parts)) == len(parts) == len(np.unique(made.pairs[:, 0]))
    assert (made.groups[0], made.groups[-1]) == (0, len(made.pairs))


def test_rows_of_many_samples_are_counted_without_overflow():
    n = 2**31 - 1
    pairs = np.array([[n - 1, n - 2], [0, n - 1], [n - 2, n - 1]], np.int32)
    made = PairSet.from_pairs(pairs, n)
    np.testing.assert_array_equal(made.pairs, [[0, n - 1], [n - 2, n - 1]])
    np.testing.assert_array_equal(made.counts, [1, 2])


def test_similar_and_dissimilar_pairs_of_triplets_are_those_of_the_anchor_with_either_partner():
    triplets = np.array([(0, 1, 2), (0, 1, 3), (1, 0, 2), (4, 3, 0)])
    similar, dissimilar = to_pair_sets(Constraints.of_triplets(triplets, 5))
    np.testing.assert_array_equal(similar.pairs, [(0, 1), (3, 4)])
    np.testing.assert_array_equal(similar.counts, [3, 1])
    np.testing.assert_array_equal(dissimilar.pairs, [(0, 2), (0, 3), (0, 4), (1, 2)])
    np.testing.assert_array_equal(dissimilar.counts, [1, 1, 1, 1])
    assert similar.total == dissimilar.total == len(triplets)


# Classes


def test_classes_hold_the_labelled_rows_sorted_by_class_and_then_by_row():
    y = unbalanced_labels()
    classes = Classes.from_labels("test", y)
    np.testing.assert_array_equal(classes.size, [9, 40, 1, 25, 2])  # labels 0, 3, 5, 7, 12
    np.testing.assert_array_equal(classes.first, [0, 9, 49, 50, 75])
    expected = [row for label in (0, 3, 5, 7, 12) for row in np.flatnonzero(y == label)]
    np.testing.assert_array_equal(classes.rows, expected)
    np.testing.assert_array_equal(classes.of, np.repeat(np.arange(5), classes.size))
    for place, (begin, end) in enumerate(classes.bounds):
        assert begin <= place < end
        np.testing.assert_array_equal(y[classes.rows[begin:end]], y[classes.rows[place]])
        assert end - begin == np.sum(y == y[classes.rows[place]])


@given(
    st.sampled_from(["int8", "uint8", "int64", "uint64"]),
    st.lists(st.integers(0, 255), min_size=3, max_size=30),
    st.booleans(),
)
def test_integer_labels_are_numbered_as_by_a_sort(dtype, numbers, at_the_top):
    limits = np.iinfo(dtype)
    base = max(int(limits.max) - 255, int(limits.min)) if at_the_top else int(limits.min)
    y = np.array([base + number for number in numbers], dtype)
    n_classes, codes = labels._number_classes(y)
    distinct, wanted = np.unique(y, return_inverse=True)
    assert n_classes == len(distinct)
    np.testing.assert_array_equal(codes, wanted)


@pytest.mark.parametrize("kind", [str, float, object])
def test_classes_depend_on_the_order_of_labels_only(kind):
    y = np.array([2, 1, 2, 3, 1, 2])
    one, other = Classes.from_labels("test", y), Classes.from_labels("test", y.astype(kind))
    for field in ("rows", "of", "first", "size", "bounds"):
        np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("n_nearest", [1, 3, 50])
def test_nearest_places_are_those_of_sorted_distances_ties_by_row(same, n_nearest):
    y = unbalanced_labels()
    X = np.random.default_rng(0).integers(0, 4, size=(len(y), 2)).astype(float)  # many ties
    classes = Classes.from_labels("test", y)
    places, sq_dists = classes.nearest(X[classes.rows], n_nearest, same=same)
    for place, row in enumerate(classes.rows):
        pool = np.flatnonzero((y == y[row]) if same else (y != y[row]) & (y != -1))
        pool = pool[pool != row]
        dists = np.sum((X[pool] - X[row]) ** 2, axis=1)
        order = np.lexsort([pool, dists])[:n_nearest]
        n = len(order)
        np.testing.assert_array_equal(classes.rows[places[place, :n]], pool[order])
        np.testing.assert_array_equal(sq_dists[place, :n], dists[order])
        assert np.all(places[place, n:] == -1)
        assert np.all(sq_dists[place, n:] == np.inf)


@pytest.mark.parametrize("y", [[0, 0, 0], [0, 0, -1], [-1, -1, -1]])
def test_classes_of_fewer_than_two_kinds_are_refused_in_the_name_of_the_caller(y):
    with pytest.raises(ValueError, match="LMNN needs at least two classes"):
        Classes.from_labels("LMNN", y)


# Many rows


@pytest.fixture
def many(monkeypatch):
    """Rows enough for leaves, if these are small; one class has three members."""
    monkeypatch.setattr(search, "_EXACT_UP_TO", 100)
    monkeypatch.setattr(trees, "_LEAF", 64)
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1, 2, -1], [900, 700, 3, 20]))
    return rng.normal(size=(len(y), 2)) + 2.0 * y[:, None], y


@pytest.mark.parametrize("apart", [0.0, 100.0])
def test_nearly_all_neighbours_of_many_rows_are_found_and_are_of_the_right_class(many, apart):
    X, y = many
    X = X + apart * y[:, None]
    found, exact = neighbor_triplets(X, y, 3, 5), neighbor_triplets(X, y, 3, 5, recall=1.0)
    anchor, similar, dissimilar = found.T
    assert np.all(y[anchor] == y[similar])
    assert np.all(y[anchor] != y[dissimilar])
    assert np.all(anchor != similar)
    assert np.all(y[found] >= 0)
    np.testing.assert_array_equal(exact[:, 0], anchor)
    for ours, true in zip(found.T[1:], exact.T[1:], strict=True):
        both = np.intersect1d(anchor * len(y) + ours, anchor * len(y) + true)
        assert len(both) > 0.9 * len(np.unique(anchor * len(y) + true))
    np.testing.assert_array_equal(neighbor_triplets(X, y, 3, 5), found)


def test_all_pairs_of_many_rows_are_compared_on_demand(many, monkeypatch):
    X, y = many
    found = neighbor_triplets(X, y, 3, 5, recall=1.0)
    monkeypatch.setattr(search, "_EXACT_UP_TO", 10**6)
    np.testing.assert_array_equal(neighbor_triplets(X, y, 3, 5), found)
    with pytest.raises(ValueError, match=r"recall must be above 0 and at most 1, got 1\.5"):
        neighbor_triplets(X, y, recall=1.5)


def test_identical_rows_do_not_stop_the_cutting(many):
    _, y = many
    assert len(neighbor_triplets(np.zeros((len(y), 2)), y, 2, 2)) == 4 * np.sum(y >= 0)


_PARTLY = ["a", None, "b", "a", "b", "a", "b", "a"]
_NUMBERS = [0, None, 1, 0, 1, 0, 1, 0]
MISSING_LABELS = {
    **{
        repr(gap): [gap, *_PARTLY[2:], "b"]
        for gap in (None, np.nan, "", "  ", np.datetime64("NaT"))
    },
    "texts": np.array(["", *_PARTLY[2:], "b"]),
    "strings": np.array(["", *_PARTLY[2:], "b"], np.dtypes.StringDType()),
    "bytes": np.array([b"", *(label.encode() for label in _PARTLY[2:]), b"b"]),
    "floats": np.array([np.nan, *_NUMBERS[2:], 1]),
    "masked": np.ma.masked_array([0, *_NUMBERS[2:], 1], [True] + [False] * 7),
    "dates": np.array(["NaT", *["2020-01-02", "2020-01-01"] * 3, "2020-01-02"], "M8[D]"),
}


@pytest.mark.parametrize("y", MISSING_LABELS.values(), ids=MISSING_LABELS)
def test_missing_labels_of_every_kind_are_unlabelled(y):
    classes = Classes.from_labels("test", y)
    assert sorted(classes.rows.tolist()) == [1, 2, 3, 4, 5, 6, 7]
    assert classes.size.tolist() in ([3, 4], [4, 3])
    assert find_labelled(y).tolist() == [False] + [True] * 7


@pytest.mark.parametrize("kind", ["string", "category", "object", "Int64", "boolean"])
def test_missing_labels_of_pandas_are_unlabelled(kind):
    import pandas

    y = pandas.Series(_PARTLY if kind in ("string", "category", "object") else _NUMBERS, dtype=kind)
    X = np.arange(8.0)[:, None] + np.array([0.0, 3.0])
    assert Classes.from_labels("test", y).rows.tolist().count(1) == 0
    model = GMML().fit(X, y)
    known = y.notna().to_numpy()
    twin = GMML().fit(X[known], np.asarray(y[known]))
    np.testing.assert_allclose(model.components_, twin.components_)


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["Gold", "gold", "tin"], "'Gold' and 'gold'. Did you mean the same"),
        (["North", "North ", "South"], "'North' and 'North '. Did you mean the same"),
        (["a", "b", "-1"], "the text '-1' in 2 rows.*Did you mean rows without a label"),
        (["a", "b", "nan"], "the text 'nan' in 2 rows.*Did you mean rows without a label"),
        (["a", "b", "don't know"], "know.* in 2 rows.*Did you mean rows without a label"),
    ],
)
def test_odd_labels_are_answered_with_what_was_probably_meant(labels, words):
    with pytest.warns(UserWarning, match=words):
        Classes.from_labels("test", labels * 2)


def test_classes_of_two_signs_are_no_odd_labels():
    assert Classes.from_labels("test", ["-1", "1", "-1", "1"]).size.tolist() == [2, 2]
