"""Logs of clicks: how they are read, what they say of positions, and what is learned from them."""

import json
import warnings

import numpy as np
import pytest

import mdaml
from mdaml.retrieval import QueryAdapter
from mdaml.retrieval import _candidates as candidates
from mdaml.retrieval._clicks import read_clicks
from mdaml.retrieval._judges import ClickJudge, score_shown
from mdaml.retrieval._propensity import find_propensities
from mdaml.retrieval._search import load_arrays

N_SHOWN = 6
BY_SCORES = "estimated from documents with equal scores at different positions"


def make_search(n=300, d=12, n_classes=10, per_class=8, seed=0):
    """Queries and documents of classes that differ in a few of the features."""
    rng = np.random.default_rng(seed)
    centers = 1.5 * rng.normal(size=(n_classes, 4))
    label, asked = np.repeat(np.arange(n_classes), per_class), rng.integers(n_classes, size=n)
    X, Q = rng.normal(size=(len(label), d)), rng.normal(size=(n, d))
    X[:, :4] += centers[label]
    Q[:, :4] += centers[asked]
    X, Q = (A / np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Q))
    return Q.astype(np.float32), asked, X.astype(np.float32), label


def make_log(Q, asked, X, label, seed=0, *, liked=(0.8, 0.05), swap=False):
    """Rows (query, document, position, clicked) of lists by cosine, looked at with 1 / position."""
    rng = np.random.default_rng(seed)
    shown = np.argsort(-(Q @ X.T), axis=1)[:, :N_SHOWN]
    if swap:
        shown = rng.permuted(shown, axis=1)
    right = label[shown] == asked[:, None]
    looked_at = 1.0 / np.arange(1, N_SHOWN + 1)
    clicked = rng.random(shown.shape) < looked_at * np.where(right, *liked)
    return np.column_stack(
        [
            np.repeat(np.arange(len(Q)), N_SHOWN),
            shown.ravel(),
            np.tile(np.arange(1, N_SHOWN + 1), len(Q)),
            clicked.ravel(),
        ]
    )


def fit_quietly(model, *data, **supervision):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*data, **supervision)


def ndcg(model, Q, asked, X, label):
    pairs = np.argwhere(asked[:, None] == label)
    return mdaml.retrieval.retrieval_scores(model, Q, X, pairs, k=10, n_bootstrap=1).scores[
        "ndcg@10"
    ]


# Reading


SMALL = [(0, 2, 1, 1), (0, 1, 2, 0), (1, 2, 1, 0), (1, 0, 2, 1)]


def same(one, other):
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("queries", "documents", "positions", "clicked", "impressions")
    )


def test_an_array_a_list_a_frame_and_files_say_the_same(tmp_path):
    import pandas as pd

    expected = read_clicks(np.array(SMALL), None, 2, 3)
    assert same(read_clicks(SMALL, None, 2, 3), expected)
    frame = pd.DataFrame(SMALL, columns=["Query ID", "doc_id", "rank", "click"])
    frame["click"] = frame["click"].astype(bool)
    assert same(read_clicks(frame[["click", "rank", "doc_id", "Query ID"]], None, 2, 3), expected)
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    frame.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    for name in ("log.csv", "log.parquet", "log.jsonl"):
        assert same(read_clicks(tmp_path / name, None, 2, 3), expected), name
        assert same(read_clicks(str(tmp_path / name), None, 2, 3), expected), name


@pytest.mark.parametrize(
    "names",
    [
        ("search_query", "article_id", "Result Position", "was clicked"),
        ("search-term", "URL", "rank", "is_clicked"),
    ],
)
def test_columns_are_found_by_names_that_logs_have(names, tmp_path):
    lines = [",".join(names), *(",".join(map(str, row)) for row in SMALL)]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    assert same(read_clicks(tmp_path / "log.csv", None, 2, 3), read_clicks(SMALL, None, 2, 3))


def test_several_logs_may_be_files_frames_and_arrays(tmp_path):
    import pandas as pd

    columns = ["query", "document", "position", "clicked"]
    whole = pd.DataFrame(SMALL, columns=columns)
    one, two = whole[whole["query"] == 0], whole[whole["query"] == 1]
    two.to_csv(tmp_path / "two.csv", index=False)
    expected = read_clicks(SMALL, None, 2, 3)
    for logs in ([one, two], (one, two.to_numpy()), [one, tmp_path / "two.csv"]):
        assert same(read_clicks(logs, None, 2, 3), expected)
    assert same(read_clicks(whole.to_dict("records"), None, 2, 3), expected)
    with pytest.raises(ValueError, match="the fields of all rows must be the same"):
        read_clicks([{"query": 0, "doc": 1}, {"query": 0}], None, 2, 3)


def test_a_log_without_rows_is_refused():
    with pytest.raises(ValueError, match=r"clicks must have a row .* got no rows"):
        read_clicks(np.empty((0, 4)), None, 2, 3)


def test_names_take_the_place_of_rows():
    named = [(f"q{q}", f"d{x}", k, c) for q, x, k, c in SMALL]
    ids = (["q0", "q1"], ["d0", "d1", "d2"])
    assert same(read_clicks(named, ids, 2, 3), read_clicks(SMALL, None, 2, 3))


def test_names_that_are_numbers_are_found_in_files(tmp_path):
    lines = ["query,document,position,clicked", "10,7,1,1", "10,8,2,0"]
    (tmp_path / "log.csv").write_text("\n".join(lines))
    log = read_clicks(tmp_path / "log.csv", ([9, 10], [8, 7]), 2, 2)
    assert log.queries.tolist() == [1, 1]
    assert log.documents.tolist() == [1, 0]


def test_a_query_that_is_shown_twice_has_two_lists():
    twice = [*SMALL, (0, 1, 1, 1), (0, 2, 2, 0)]
    assert read_clicks(twice, None, 2, 3).impressions.tolist() == [0, 0, 1, 1, 2, 2]
    visits = [(*row, visit) for row, visit in zip(twice, "aabbaa", strict=True)]
    assert read_clicks(visits, None, 2, 3).impressions.max() == 2
    shuffled = [(*row, v) for row, v in zip(twice, "xxyyzz", strict=True)]
    expected = read_clicks(shuffled, None, 2, 3)
    assert same(read_clicks(shuffled[::-1], None, 2, 3), expected)


def test_positions_may_be_counted_from_zero():
    from_zero = [(q, x, k - 1, c) for q, x, k, c in SMALL]
    assert same(read_clicks(from_zero, None, 2, 3), read_clicks(SMALL, None, 2, 3))


@pytest.mark.parametrize(
    ("clicks", "message"),
    [
        ([(0, 1, 1)], "a row \\(query, document, position, clicked\\)"),
        ([(0, 1, 1, 1)], "others that were shown but not clicked, got 1 clicks in 1 rows"),
        ([(0, 1, 1, 0), (0, 2, 2, 0)], "got 0 clicks in 2 rows"),
        ([(0, 1, 1, 3), (0, 2, 2, 0)], "clicked must be 1 or 0.* If it is a number of clicks"),
        ([(0, 1, -1, 1), (0, 2, 2, 0)], "positions must be whole numbers"),
        ([(0, 1, "top", 1), (0, 2, "low", 0)], "positions must be whole numbers"),
        ([(0, 1, 1, 1), (0, 2, None, 0)], "1 of 2 are missing, the first in row 1"),
        ([(0, 9, 1, 1), (0, 2, 2, 0)], "clicks names row 9 of the documents, but there are 3"),
    ],
)
def test_a_log_that_cannot_be_used_is_refused(clicks, message):
    with pytest.raises((ValueError, TypeError), match=message):
        read_clicks(clicks, None, 2, 3)


@pytest.mark.parametrize(
    ("clicks", "message"),
    [
        ([("b", "x", 1, 1), ("c", "x", 2, 0)], "Exchange these columns"),
        ([("x", "b", 1, 1), (None, "c", 2, 0)], r"row 1 \(from 0\) names none of the queries"),
        ([("x", "b", 1, 1), ("x", "d", 2, 0)], "'d', which is not one of the ids of the documents"),
    ],
)
def test_names_that_cannot_be_found_are_refused_with_the_cause(clicks, message):
    with pytest.raises(ValueError, match=message):
        read_clicks(clicks, (["x", "y"], ["a", "b", "c"]), 2, 3)


def test_a_log_of_skips_is_asked_about():
    _, asked, X, label = data = make_search(40)
    log = make_log(*data)
    read_clicks(log, None, len(asked), len(X))
    log[:, 3] = 1 - log[:, 3]
    with pytest.warns(UserWarning, match="of the documents shown were clicked.*exchange 1 and 0"):
        read_clicks(log, None, len(asked), len(label))


def test_a_file_without_a_column_is_refused_by_its_name(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("query,document,clicked\n0,1,1\n")
    with pytest.raises(ValueError, match=r"log\.csv: .* there is no position among query, doc"):
        read_clicks(path, None, 2, 3)
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"query": 0, "document": 1, "position": 1}) + "\n")
    with pytest.raises(ValueError, match=r"log\.jsonl:1: .* there is no clicked"):
        read_clicks(path, None, 2, 3)


def test_either_pairs_or_clicks_are_passed():
    Q, _, X, _ = make_search(20)
    for supervision in ({}, {"relevant": [[0, 1]], "clicks": SMALL}):
        with pytest.raises(ValueError, match="Pass either relevant"):
            QueryAdapter().fit(Q, X, **supervision)


# Positions


def read(Q, X, rows):
    log = read_clicks(rows, None, len(Q), len(X))
    collection = candidates.collect(Q, X, load_arrays(None), by_distance=False)
    identity = np.eye(X.shape[1], dtype=np.float32)
    scores = score_shown(collection, Q[log.queries], log.documents, identity, symmetric=False)
    return log, collection, scores


@pytest.mark.parametrize("liked", [(0.8, 0.05), (0.4, 0.4)])
def test_the_bias_is_found_from_scores(liked):
    Q, asked, X, label = make_search(4000)
    log, _, scores = read(Q, X, make_log(Q, asked, X, label, liked=liked))
    found = find_propensities(log, scores, None)
    assert found.values == pytest.approx(1.0 / np.arange(1, N_SHOWN + 1), abs=0.1)
    assert found.source == BY_SCORES
    assert np.all(np.diff(found.values) <= 0)


def test_documents_that_were_moved_tell_the_bias_where_scores_mislead():
    Q, asked, X, label = make_search(200)
    Q, asked = np.repeat(Q[:50], 80, axis=0), np.repeat(asked[:50], 80)
    rows = make_log(Q, asked, X, label, swap=True)
    rows[:, 0] //= 80  # 50 queries, each asked 80 times
    log, _, _ = read(Q[::80], X, rows)
    misleading = -log.positions.astype(float)  # as if the position were the relevance
    found = find_propensities(log, misleading, None)
    assert found.values == pytest.approx(1.0 / np.arange(1, N_SHOWN + 1), abs=0.07)
    assert "clicks on pairs that were shown at two positions" in found.source


def test_given_propensities_are_used_and_checked():
    Q, asked, X, label = make_search(60)
    rows = make_log(Q, asked, X, label)
    given = 0.8 / np.sqrt(np.arange(1, N_SHOWN + 1))
    model = QueryAdapter(anchor=0.1).fit(Q, X, clicks=rows, propensities=given)
    assert model.propensities_ == pytest.approx(given / given[0])
    more = np.append(given, 1.0)  # of a position that the log does not have
    model = QueryAdapter(anchor=0.1).fit(Q, X, clicks=rows, propensities=more)
    assert model.propensities_ == pytest.approx(given / given[0])
    for wrong in (given[:3], -given, 2 + given):
        with pytest.raises(ValueError, match="one for each of the 6 positions"):
            QueryAdapter().fit(Q, X, clicks=rows, propensities=wrong)


# What is compared


def test_the_score_of_clicks_is_that_of_loops():
    Q, asked, X, label = make_search(40)
    log, collection, _ = read(Q, X, make_log(Q, asked, X, label))
    propensities = 1.0 / np.arange(1.0, N_SHOWN + 1)
    tests = [np.arange(0, 20), np.arange(30, 40)]
    rng = np.random.default_rng(0)
    maps = [np.eye(12) + 0.2 * rng.normal(size=(12, 12)) for _ in tests]
    judge = ClickJudge(collection, False, log, propensities, tests)
    found = judge.score(maps)

    def likelihood(factor):
        out = []
        for W, test in zip(maps, tests, strict=True):
            for q in test:
                rows = np.flatnonzero(log.queries == q)
                s = np.array([factor * (W @ Q[q]) @ X[x] for x in log.documents[rows]])
                looked_at = propensities[log.positions[rows]] * np.exp(s)
                shares = looked_at / looked_at.sum()
                out.append(sum(
                    np.log(share)
                    for row, share in zip(rows, shares, strict=True) if log.clicked[row]
                ))  # fmt: skip
        return np.array(out)

    best = max((likelihood(factor) for factor in np.linspace(0, 12, 241)), key=np.sum)
    kept = np.isin(log.queries, np.concatenate(tests)) & log.clicked
    assert found == pytest.approx(best * 30 / kept.sum(), abs=2e-2)


def test_slopes_are_those_of_the_score_on_the_way_to_a_map():
    Q, asked, X, label = make_search(60)
    log, collection, _ = read(Q, X, make_log(Q, asked, X, label))
    propensities = 1.0 / np.arange(1.0, N_SHOWN + 1)
    tests = [np.arange(0, 40), np.arange(45, 60)]
    rng = np.random.default_rng(0)
    anchors = [np.eye(12)] * 2
    maps = [np.eye(12) + 0.3 * rng.normal(size=(12, 12)) for _ in tests]
    judge = ClickJudge(collection, False, log, propensities, tests)
    base = judge._score_shown(anchors)
    factor = judge._find_factor(base / base.std())
    step = 1e-3
    near = [anchor + step * (W - anchor) for anchor, W in zip(anchors, maps, strict=True)]
    rise = (judge.score(near) - judge.score(anchors)).sum() / step
    assert factor * judge.slope(anchors, maps).sum() == pytest.approx(rise, rel=0.02)
    # Of the same ranking by longer scores nothing can be said, for any query.
    assert judge.slope(anchors, [3.0 * anchor for anchor in anchors]) == pytest.approx(0, abs=1e-9)


def test_longer_scores_rank_no_better():
    Q, asked, X, label = make_search(60)
    log, collection, _ = read(Q, X, make_log(Q, asked, X, label))
    judge = ClickJudge(collection, False, log, np.ones(N_SHOWN), [np.arange(60)])
    once, thrice = (judge.score([factor * np.eye(12)]) for factor in (1.0, 3.0))
    assert once == pytest.approx(thrice, abs=1e-4)


def test_what_was_not_shown_does_not_count():
    Q, asked, X, label = make_search(60)
    rows = make_log(Q, asked, X, label)
    log, collection, _ = read(Q, X, rows)
    hidden = np.setdiff1d(np.arange(len(X)), rows[:, 1])
    X2 = X.copy()
    X2[hidden] = X[hidden[::-1]]
    other = candidates.collect(Q, X2, load_arrays(None), by_distance=False)
    scores = [
        ClickJudge(c, False, log, np.ones(N_SHOWN), [np.arange(60)]).score([np.eye(12)])
        for c in (collection, other)
    ]
    assert np.array_equal(*scores)


# What is learned


def test_a_log_of_relevant_clicks_is_learned_from():
    Q, asked, X, label = make_search(2300)
    rows = make_log(Q[:2000], asked[:2000], X, label)
    model = QueryAdapter(random_state=0).fit(Q[:2000], X, clicks=rows)
    new = Q[2000:], asked[2000:], X, label
    assert model.improved_
    assert ndcg(model, *new) > ndcg(None, *new) + 0.02
    assert model.held_out_["measure"] == "log-likelihood of clicks"
    assert model.held_out_["interval"][1] > 0
    assert model.held_out_["p_value"] <= 0.05
    assert f"direction (p = 0.0005). Position bias: {BY_SCORES}." in model.summary()


def test_few_clicks_confirm_directions_where_whole_steps_say_little():
    """Of twelve logs of 400 visits; the scores of whole steps would pass the test in three."""
    gains = []
    for seed in range(12):
        Q, asked, X, label = make_search(600, seed=seed)
        rows = make_log(Q[:400], asked[:400], X, label, seed)
        model = fit_quietly(QueryAdapter(random_state=0), Q[:400], X, clicks=rows)
        if model.improved_:
            new = Q[400:], asked[400:], X, label
            gains.append(ndcg(model, *new) - ndcg(None, *new))
    assert len(gains) >= 4
    assert min(gains) > -0.01
    assert np.mean(gains) > 0.01


@pytest.mark.parametrize("seed", range(6))
def test_clicks_by_position_alone_change_nothing(seed):
    Q, asked, X, label = make_search(150, seed=seed)
    rows = make_log(Q, asked, X, label, seed, liked=(0.4, 0.4))
    with pytest.warns(UserWarning, match=r"clicks that follow the position .* random order"):
        model = QueryAdapter(random_state=0).fit(Q, X, clicks=rows)
    assert np.array_equal(model.components_, np.eye(12, dtype=np.float32))


def test_too_few_lists_that_tell_are_said_to_be_too_few():
    Q, _, X, _ = make_search(20)
    with pytest.warns(UserWarning, match="only 2 different queries have a clicked document"):
        model = QueryAdapter().fit(Q, X, clicks=SMALL)
    assert not model.improved_


@pytest.mark.parametrize("anchor", ["auto", 0.1])
@pytest.mark.parametrize("rank", [None, 1])
def test_a_log_without_a_document_above_the_mean_is_refused(anchor, rank):
    Q, _, X, _ = make_search(20)
    # In two visits each of two documents is first once, and clicked there.
    rows = [(q, (v + p) % 2, p + 1, int(p == 0)) for q in range(20) for v in (0, 1) for p in (0, 1)]
    model = QueryAdapter(anchor=anchor, rank=rank)
    with pytest.raises(ValueError, match="no document was clicked more often than the mean"):
        model.fit(Q, X, clicks=rows, propensities=[1.0, 1.0])
    assert not hasattr(model, "components_")


def test_a_document_that_is_often_shown_and_seldom_clicked_is_not_relevant():
    rows = [(0, 1, 1, int(n == 0), n) for n in range(40)] + [(0, 2, 2, 1, n) for n in range(40)]
    log = read_clicks(rows, None, 1, 3)
    pairs = log.to_relevance(np.array([1.0, 0.5]))
    assert pairs.documents.tolist() == [2]


def test_the_saved_adapter_is_the_same(tmp_path):
    Q, asked, X, label = make_search(60)
    model = QueryAdapter(anchor=0.1).fit(Q, X, clicks=make_log(Q, asked, X, label))
    model.save(tmp_path / "m.mdaml")
    loaded = mdaml.load(tmp_path / "m.mdaml")
    assert np.array_equal(loaded.propensities_, model.propensities_)
    assert np.array_equal(loaded.components_, model.components_)


def test_a_growing_log_keeps_the_stored_documents():
    Q, asked, X, label = make_search(400)
    rows = make_log(Q, asked, X, label)
    model = QueryAdapter(anchor=0.01, warm_start=True, tol=1e-5)
    yesterday = model.fit(Q, X, clicks=rows[: 200 * N_SHOWN])
    stored, n_first = yesterday.transform_documents(X), yesterday.n_iter_
    first = yesterday.components_.copy()
    today = model.fit(Q, X, clicks=rows)
    assert np.array_equal(today.transform_documents(X), stored)
    assert not np.array_equal(today.components_, first)
    anew = QueryAdapter(anchor=0.01, tol=1e-5).fit(Q, X, clicks=rows)
    assert today.components_ == pytest.approx(anew.components_, abs=0.02)
    assert today.n_iter_ <= max(n_first, anew.n_iter_)


def test_one_query_at_a_time_is_mapped_as_many_are():
    Q, asked, X, label = make_search(60)
    for symmetric in (False, True):
        model = QueryAdapter(anchor=0.1, symmetric=symmetric)
        model.fit(Q, X, clicks=make_log(Q, asked, X, label))
        for query, mapped in zip(Q[:5], model.transform_queries(Q[:5]), strict=True):
            assert model.transform_queries(query) == pytest.approx(mapped, abs=1e-6)
            assert model.transform_queries(query.tolist()).shape == (12,)
    with pytest.raises(ValueError, match="queries have 3 features"):
        model.transform_queries(np.ones(3))
