"""The rule for every choice, and what is held out for it."""

import numpy as np
import pytest

from mdaml import Constraints
from mdaml.constraints.forms.answers import ANSWER
from mdaml.datasets import make_triplets
from mdaml.holdout import comparisons
from mdaml.holdout.comparisons import scaled_losses
from mdaml.holdout.rule import (
    LEVEL,
    find_leaders,
    find_p_values,
    find_trailing,
    measure_gain,
    prefer_first,
    walk_from_start,
)
from mdaml.holdout.samples import deal_samples
from mdaml.holdout.split import find_questions, hold_out_points, same_points
from mdaml.stores.memory import MemoryStore

N_DRAWS = 1000
# The share of 1000 draws that a true rate of 5 % stays below, up to one time in a thousand.
MOST = LEVEL + 3.1 * np.sqrt(LEVEL * (1 - LEVEL) / N_DRAWS)


def differences(rng, n_candidates, n_units, alike):
    """Return differences from the start without any lead; candidates may be much alike."""
    common, own = rng.standard_t(4, (1, n_units)), rng.standard_t(4, (n_candidates, n_units))
    return np.sqrt(alike) * common + np.sqrt(1 - alike) * own


@pytest.mark.parametrize(("n_candidates", "alike"), [(1, 0.0), (6, 0.0), (6, 0.95)])
def test_the_start_is_replaced_by_chance_in_a_twentieth_of_the_draws(n_candidates, alike):
    rng, units = np.random.default_rng(0), np.arange(40)
    found = [
        find_leaders(np.zeros(40), differences(rng, n_candidates, 40, alike), units).any()
        for _ in range(N_DRAWS)
    ]
    # Nor is it much rarer, which would cost power: the test knows how much alike they are.
    assert 0.5 * LEVEL < np.mean(found) < MOST


def test_a_unit_counts_once_however_many_cases_it_has():
    """Ten cases of a unit say the same; taken for ten units they would look like evidence."""
    rng, units = np.random.default_rng(1), np.repeat(np.arange(12), 10)
    together, apart = [], []
    for _ in range(N_DRAWS // 2):
        cases = np.repeat(rng.normal(size=(3, 12)), 10, axis=1)
        together.append(find_leaders(np.zeros(120), cases, units).any())
    for _ in range(20):
        cases = np.repeat(rng.normal(size=(3, 12)), 10, axis=1)
        apart.append(find_leaders(np.zeros(120), cases, np.arange(120)).any())
    assert np.mean(together) < LEVEL + 3.1 * np.sqrt(LEVEL * (1 - LEVEL) / len(together))
    assert np.mean(apart) > 0.3


def test_a_true_lead_is_found_and_only_the_candidate_that_has_it():
    rng, units = np.random.default_rng(2), np.arange(100)
    found = np.zeros(4)
    for _ in range(100):
        others = differences(rng, 4, 100, 0.3)
        others[2] += 0.7
        found += find_leaders(np.zeros(100), others, units)
    assert found[2] >= 95
    assert found[[0, 1, 3]].max() <= 10


def test_few_units_never_replace_the_start():
    """Of four units that all agree, chance gives the same in one of sixteen cases."""
    for n, leads in ((1, False), (4, False), (6, True)):
        assert find_leaders(np.zeros(n), np.ones((1, n)), np.arange(n))[0] == leads


def test_ties_and_equal_candidates_do_not_lead():
    right = np.random.default_rng(0).integers(0, 2, 50).astype(float)
    assert not find_leaders(right, np.array([right, right]), np.arange(50)).any()


def test_weights_and_many_units_keep_the_decision():
    rng = np.random.default_rng(3)
    units, weights = np.arange(5000), rng.uniform(0.1, 2.0, 5000)
    start = rng.normal(size=5000)
    better, worse = start + 0.1 + rng.normal(size=5000), start - 0.1 + rng.normal(size=5000)
    leads = find_leaders(start, np.array([better, worse]), units, weights)
    np.testing.assert_array_equal(leads, [True, False])
    # What weighs nothing decides nothing.
    weights[better > start] = 0.0
    assert not find_leaders(start, better[None], units, weights)[0]


def test_the_scale_of_scores_decides_nothing():
    rng, units = np.random.default_rng(4), np.arange(60)
    start, others = rng.normal(size=60), rng.normal(size=(5, 60)) + 0.25
    wanted = find_leaders(start, others, units)
    for scale in (1e-12, 1e-3, 1e3, 1e12):
        np.testing.assert_array_equal(find_leaders(scale * start, scale * others, units), wanted)


def test_a_walk_leaves_the_start_by_chance_in_a_twentieth_of_the_draws():
    """However many candidates stand in the order, since the first has to lead first."""
    rng, units = np.random.default_rng(11), np.arange(40)
    taken = [
        walk_from_start(np.zeros(40), differences(rng, 5, 40, 0.5), units).taken is not None
        for _ in range(N_DRAWS)
    ]
    assert 0.5 * LEVEL < np.mean(taken) < MOST


def test_a_walk_finds_leads_in_order_that_a_test_of_all_would_miss():
    """Of the first of eight that differ much: alone it needs no correction for the others."""
    rng, units, found = np.random.default_rng(12), np.arange(40), np.zeros(2)
    for _ in range(200):
        others = differences(rng, 8, 40, 0.0) + 0.6
        found[0] += walk_from_start(np.zeros(40), others, units).taken is not None
        found[1] += find_leaders(np.zeros(40), others, units)[0]
    assert found[0] > found[1] + 20


def test_a_walk_ends_where_nothing_leads_and_makes_nothing_behind_it():
    rng, units, made = np.random.default_rng(13), np.arange(60), []
    noise = 0.1 * rng.normal(size=60)

    def candidates(leads):
        for place, lead in enumerate(leads):
            made.append(place)
            yield lead + noise

    for leads, n_made, taken in (
        ([1.0, 2.0, 2.0, 2.0], 4, 3),  # the last of those among the best
        ([1.0, 2.0, 1.5, 3.0], 3, 1),  # lower than the highest so far
        ([1.0, 0.0, 3.0], 2, 0),
        ([-1.0, 3.0], 1, None),
    ):
        made.clear()
        walk = walk_from_start(np.zeros(60), candidates(leads), units)
        assert (len(made), len(walk.scores), walk.taken) == (n_made, n_made, taken)
        assert (walk.p_value <= LEVEL) == (taken is not None)


def test_slopes_of_units_that_teach_each_other_lead_by_chance_in_a_twentieth_of_the_draws():
    """What a unit teaches of another is in the leads of both, so their sum varies twice as much."""
    rng, units, found = np.random.default_rng(15), np.arange(60), np.zeros(2)
    for _ in range(N_DRAWS):
        lessons = rng.normal(size=(60, 200))
        alike = lessons @ lessons.T
        np.fill_diagonal(alike, 0.0)
        leads = alike.sum(axis=1)[None]
        found += [find_p_values(leads, units, variance=v)[0] <= LEVEL for v in (1.0, 2.0)]
    assert found[0] / N_DRAWS > 1.7 * LEVEL
    assert 0.5 * LEVEL < found[1] / N_DRAWS < MOST


def test_a_walk_counts_units_and_not_cases():
    rng, units, taken = np.random.default_rng(14), np.repeat(np.arange(12), 10), 0
    for _ in range(N_DRAWS // 2):
        cases = np.repeat(rng.normal(size=(3, 12)), 10, axis=1)
        taken += walk_from_start(np.zeros(120), cases, units).taken is not None
    assert taken / (N_DRAWS // 2) < LEVEL + 3.1 * np.sqrt(LEVEL * (1 - LEVEL) / (N_DRAWS // 2))


@pytest.mark.parametrize(("n_won", "best"), [(50, 0), (52, 0), (54, 1), (60, 1)])
def test_the_first_is_preferred_within_half_a_standard_error(n_won, best):
    """Of 100 cases that differ, 52 against 48 is chance, 54 against 46 is not."""
    won = (np.arange(100) < n_won).astype(float)
    assert prefer_first(np.array([1 - won, won])) == best


def test_the_first_is_not_taken_where_it_is_not_allowed():
    scores = np.array([np.ones(9), np.zeros(9), np.full(9, 0.5)])
    assert prefer_first(scores) == 0
    assert prefer_first(scores, np.array([True, True, False])) == 0
    assert prefer_first(scores, np.array([False, True, True])) == 2
    assert prefer_first(scores, np.array([False, True, False])) == 1


def test_the_interval_of_a_gain_holds_the_truth_in_nineteen_of_twenty_draws():
    """Units of unequal size, whose cases are alike; the true difference is 0.1."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(400):
        size = rng.integers(1, 9, 60)
        units, rate = np.repeat(np.arange(60), size), np.repeat(rng.uniform(0.3, 0.6, 60), size)
        before = (rng.random(len(units)) < rate).astype(float)
        after = (rng.random(len(units)) < rate + 0.1).astype(float)
        gain = measure_gain("comparisons", before, after, units)
        hits += gain.low <= 0.1 <= gain.high
        assert gain.n_units == 60
    assert 0.91 < hits / 400 < 0.98


def test_the_interval_holds_the_truth_of_few_units_too():
    """With 1.96 standard errors of eight units it would in nine of ten draws only."""
    rng, hits = np.random.default_rng(15), 0
    for _ in range(2000):
        gain = measure_gain("nDCG@10", np.zeros(8), rng.normal(0.1, 0.2, 8), np.arange(8))
        hits += gain.low <= 0.1 <= gain.high
    assert 0.935 < hits / 2000 < 0.965


def test_a_gain_is_the_weighted_difference():
    before, after = np.array([0.0, 1.0, 1.0]), np.array([1.0, 1.0, 0.0])
    gain = measure_gain("3-NN", before, after, np.arange(3), np.array([2.0, 1.0, 1.0]))
    assert (gain.before, gain.after) == (0.5, 0.75)
    assert gain.low < 0.25 < gain.high
    assert not gain.is_beyond_chance
    assert "50.0% before learning, 75.0% after it" in gain.describe()


def test_samples_are_dealt_by_class_and_equal_rows_stay_together():
    rng = np.random.default_rng(6)
    of = np.repeat([0, 1, 2, 3], [30, 20, 10, 2])
    units = np.concatenate([np.repeat(np.arange(15), 2), np.arange(15, 47)])
    order = rng.permutation(62)
    of, units = of[order], units[order]
    part = deal_samples(of, units, 3, np.random.RandomState(0))
    assert (part[of == 3] == -1).all()  # two members: both are needed to learn from
    assert set(part[of != 3]) == {0, 1, 2}
    for unit in np.unique(units):
        assert len(set(part[units == unit])) == 1
    for label in range(3):
        _, first = np.unique(units[of == label], return_index=True)
        counts = np.bincount(part[of == label][first], minlength=3)
        assert counts.max() - counts.min() <= 1


@pytest.fixture(scope="module")
def supervision():
    """Triplets, both triplets of some odd-one-out answers, rankings, pairs and quadruplets."""
    rng = np.random.default_rng(7)
    rows = np.array([rng.choice(30, 4, replace=False) for _ in range(120)])
    triplets = np.concatenate([rows[:80, :3], rows[:40, [1, 0, 2]]])
    return Constraints(
        triplets=triplets,
        pairs=rows[80:100, :2],
        pair_labels=np.repeat([1, -1], 10),
        quadruplets=rows[100:],
        n_points=30,
    )


def sets_of(supervision):
    kinds = (supervision.triplets, supervision.pairs, supervision.quadruplets)
    return [frozenset(row) for rows in kinds for row in rows.tolist()]


def test_points_are_held_out_with_whole_questions(supervision):
    parts = hold_out_points(supervision, 4, np.random.RandomState(2))
    assert len(parts) == 4
    np.testing.assert_array_equal(sum(part.is_out.astype(int) for part in parts), 1)
    seen = set()
    for part in parts:
        assert not set(sets_of(part.learned)) & set(sets_of(part.held_out))
        assert part.learned.n_constraints + part.held_out.n_constraints == supervision.n_constraints
        assert len(part.units) == part.held_out.n_constraints
        assert not seen & set(part.units)  # a unit is in one part
        seen |= set(part.units)


def test_questions_are_sets_of_points_and_answers():
    triplets = [[0, 1, 2], [1, 0, 2], [0, 2, 1], [3, 4, 5], [6, 7, 8], [0, 4, 8]]
    plain = Constraints(triplets=triplets)
    np.testing.assert_array_equal(find_questions(plain), [0, 0, 0, 1, 2, 3])
    answers = Constraints(triplets=triplets, columns={ANSWER: np.array([0, 0, 1, 2, 2, 3])})
    np.testing.assert_array_equal(find_questions(answers), [0, 0, 0, 1, 1, 2])
    copies = np.array([0, 1, 2, 0, 1, 2, 6, 7, 8])  # rows 3 to 5 are those of 0 to 2
    np.testing.assert_array_equal(find_questions(plain, copies), [0, 0, 0, 0, 1, 2])


def test_repeated_rows_are_held_out_together():
    rng = np.random.default_rng(8)
    X = np.repeat(rng.normal(size=(20, 3)), 2, axis=0)
    triplets = np.array([rng.choice(40, 3, replace=False) for _ in range(150)])
    points = same_points(MemoryStore.of(X))
    np.testing.assert_array_equal(points[::2], points[1::2])
    assert len(np.unique(points)) == 20
    asked = Constraints(triplets=triplets, n_points=40)
    for part in hold_out_points(asked, 4, np.random.RandomState(0), points):
        learned, held_out = (
            {frozenset(row) for row in (side.triplets // 2).tolist()}
            for side in (part.learned, part.held_out)
        )
        assert not learned & held_out


def test_no_scale_of_a_metric_wins():
    X = np.random.default_rng(9).normal(size=(50, 4))
    triplets, _ = make_triplets(X, n_triplets=300, components=np.eye(4)[:2], wrong=0.2)
    near, far = (((X[triplets[:, 0]] - X[triplets[:, n]]) ** 2).sum(axis=1) for n in (1, 2))
    margins, weights = far - near, np.random.default_rng(10).uniform(0.5, 2.0, 300)
    losses = scaled_losses(margins, weights)
    for scale in (1e-9, 1e-3, 1e3, 1e9):
        np.testing.assert_allclose(scaled_losses(scale * margins, weights), losses, rtol=1e-9)
    # A metric that collapses says nothing of any comparison, and loses more than one that does.
    np.testing.assert_allclose(scaled_losses(0.0 * margins, weights), np.log(2.0))
    assert weights @ losses < np.log(2.0) * weights.sum()
    # One that is mostly wrong cannot do worse than say nothing, nor better.
    np.testing.assert_allclose(scaled_losses(-np.abs(margins), weights), np.log(2.0))


@pytest.mark.parametrize("wrong", [0.0, 0.3, 0.6, 1.0])
def test_losses_are_those_of_the_best_of_all_scales(wrong):
    rng = np.random.default_rng(11)
    margins = rng.gamma(1.0, size=200) * np.where(rng.random(200) < wrong, -1.0, 1.0)
    weights = rng.uniform(0.5, 2.0, 200)
    scales = comparisons._SCALES / np.average(np.abs(margins), weights=weights)
    totals = [weights @ np.logaddexp(0.0, -scale * margins) for scale in scales]
    np.testing.assert_allclose(weights @ scaled_losses(margins, weights), min(totals), rtol=1e-12)


def test_those_far_behind_are_given_up_and_never_as_many_as_are_kept():
    rng = np.random.default_rng(12)
    scores = (rng.random((6, 400)) < np.array([[0.5, 0.8, 0.79, 0.2, 0.78, 0.77]]).T) * 1.0
    units = np.arange(400)
    np.testing.assert_array_equal(find_trailing(scores, 2, units), [1, 0, 0, 1, 0, 0])
    assert not find_trailing(scores, 6, units).any()
    assert not find_trailing(scores[:, :4], 2, units[:4]).any()  # of four cases none is sure
    # Repeated cases of a unit say as much as one.
    np.testing.assert_array_equal(
        find_trailing(np.repeat(scores, 3, axis=1), 2, np.repeat(units, 3)), [1, 0, 0, 1, 0, 0]
    )


@pytest.mark.slow
def test_one_as_good_as_those_kept_is_given_up_rarely():
    rng = np.random.default_rng(13)
    given_up = [
        find_trailing((rng.random((8, 150)) < 0.8) * 1.0, 3, np.arange(150)).mean()
        for _ in range(400)
    ]
    assert np.mean(given_up) < 0.05
