"""Answers that teach nothing, or the wrong thing, for everything that chooses how much to learn.

Coin flips are judged in sum: one case may lose by chance, so :func:`judge` looks at all cases of a
run, by the differences that :func:`attack` returns with its word.
"""

import warnings

import numpy as np

from fuzz import Broken, check
from mdaml import LocalMDaML, MDaML, MDaMLCV
from mdaml.model_selection import MetricSearchCV
from mdaml.people import PersonalMetrics
from mdaml.retrieval import QueryAdapter

HARM = 0.02  # of the agreement with the truth that one case of coin flips may lose
NO_HARM = 0.95  # of all such cases lose no more
CLOSE = 0.03  # in agreement with the truth: chunks beside one fit
WANTED = (ValueError, TypeError)


def draw_truth(rng):
    """Return samples, and a function from rows of items to comparisons that are true."""
    n, d = int(rng.integers(30, 80)), int(rng.integers(3, 12))
    X = rng.normal(size=(n, d))
    scale = 10.0 ** rng.uniform(-0.5, 0.5, d)

    def answer(rows):
        Y = X * scale
        near, far = (np.sum((Y[rows[:, 0]] - Y[rows[:, k]]) ** 2, axis=1) for k in (1, 2))
        return np.where((near < far)[:, None], rows, rows[:, [0, 2, 1]])

    return X, answer


def draw_rows(rng, n_points, n):
    return np.array([rng.choice(n_points, 3, replace=False) for _ in range(n)])


def flip(rng, triplets, share):
    """Return triplets of which a share, drawn at random, has near and far exchanged."""
    wrong = rng.random(len(triplets)) < share
    return np.where(wrong[:, None], triplets[:, [0, 2, 1]], triplets)


def _agreement(model, X, asked):
    A, B, C = (X[asked[:, k]] for k in range(3))
    return float(np.mean(model.pair_distance(A, B) < model.pair_distance(A, C)))


def _euclid(X, asked):
    near, far = (np.sum((X[asked[:, 0]] - X[asked[:, k]]) ** 2, axis=1) for k in (1, 2))
    return float(np.mean(near < far))


def _fit(model, *data, **supervision):
    """Fit; return the words of all warnings, and raise what is not promised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(*data, **supervision)
        except WANTED:
            raise
        except Exception as error:
            raise Broken(f"{model}: {type(error).__name__}: {error}") from error
    return [str(each.message) for each in caught]


def _draw_chooser(rng):
    seed = int(rng.integers(100))
    make = {
        "MDaML": lambda: MDaML(random_state=seed),
        "MDaMLCV": lambda: MDaMLCV(random_state=seed),
        "MetricSearchCV": lambda: MetricSearchCV(
            MDaML(n_modes=1, random_state=seed), {"anchor": [0.03, 1.0, 10.0]}
        ),
    }
    name = str(rng.choice(list(make), p=[0.7, 0.15, 0.15]))
    return name, make[name]()


def attack_coin_flips(rng, _folder):
    """Learn from 45 to 50 % wrong answers; return what the truth lost against the start."""
    X, answer = draw_truth(rng)
    share = float(rng.choice([0.45, 0.5]))
    supervision = flip(rng, answer(draw_rows(rng, len(X), int(rng.integers(50, 500)))), share)
    asked = answer(draw_rows(rng, len(X), 2000))
    name, model = _draw_chooser(rng)
    try:
        _fit(model, X, triplets=supervision)
    except WANTED:
        return f"{name} refused"
    learned = getattr(model, "best_estimator_", model)
    lost = _euclid(X, asked) - _agreement(learned, X, asked)
    check(np.isfinite(lost), name, "agreement is not finite")
    return f"{name} {'harmed' if lost > HARM else 'kept'}"


def attack_true_answers(rng, _folder):
    """Learn from true answers: they are used, which closes a quarter of the gap to the truth."""
    X, answer = draw_truth(rng)
    asked = answer(draw_rows(rng, len(X), 2000))
    name, model = _draw_chooser(rng)
    _fit(model, X, triplets=answer(draw_rows(rng, len(X), 400)))
    start, learned = _euclid(X, asked), getattr(model, "best_estimator_", model)
    used = _agreement(learned, X, asked) >= start + 0.25 * (1 - start)
    return f"{name} {'kept' if used else 'harmed'}"


def attack_swapped(rng, _folder):
    """Give near and far the wrong way round: whoever does so is told."""
    X, answer = draw_truth(rng)
    supervision = answer(draw_rows(rng, len(X), int(rng.integers(100, 500))))[:, [0, 2, 1]]
    name, model = _draw_chooser(rng)
    try:
        told = _fit(model, X, triplets=supervision)
    except WANTED:
        return "refused"
    check(any("swap" in text.lower() for text in told), name, f"{X.shape} swapped:", told)
    return f"{name} warned"


def attack_duplicates(rng, _folder):
    """Give every comparison twice: the same metric, up to rounding."""
    X, answer = draw_truth(rng)
    supervision = flip(rng, answer(draw_rows(rng, len(X), int(rng.integers(50, 300)))), 0.1)
    seed = int(rng.integers(100))
    once, twice = MDaML(random_state=seed), MDaML(random_state=seed)
    _fit(once, X, triplets=supervision)
    _fit(twice, X, triplets=np.concatenate([supervision, supervision]))
    one, other = once.get_mahalanobis_matrix(), twice.get_mahalanobis_matrix()
    off = np.abs(one - other).max() / np.abs(one).max()
    what = f"{len(supervision)} triplets of {X.shape} twice, seed {seed}: metrics differ by"
    check(off < 1e-6, what, f"{off:.1e}, anchors {once.anchor_} and {twice.anchor_}")
    return "same"


def attack_chunks(rng, _folder):
    """Learn from chunks of answers: as near to the truth as from all at once."""
    X, answer = draw_truth(rng)
    supervision = flip(rng, answer(draw_rows(rng, len(X), 300)), float(rng.choice([0.0, 0.15])))
    asked = answer(draw_rows(rng, len(X), 2000))
    whole, parts = MDaML(random_state=0), MDaML(random_state=0)
    _fit(whole, X, triplets=supervision)
    # A few chunks of any size, or a long one and then a few answers at a time, as from mdaml ask.
    few = np.sort(rng.choice(np.arange(20, 300), int(rng.integers(1, 6)), replace=False))
    cuts = few if rng.random() < 0.5 else np.arange(280, 300, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for part in np.split(supervision, cuts):
            parts.partial_fit(X, triplets=part)
    one, other = (_agreement(model, X, asked) for model in (whole, parts))
    return "kept" if other > one - CLOSE else "harmed"


def attack_odd_one_out(rng, _folder):
    """Learn from random odd ones out of three, each of which is two triplets."""
    X, answer = draw_truth(rng)
    rows = draw_rows(rng, len(X), int(rng.integers(50, 200)))  # the last is the odd one
    supervision = np.concatenate([rows, rows[:, [1, 0, 2]]])
    asked = answer(draw_rows(rng, len(X), 2000))
    model = MDaML(random_state=0)
    _fit(model, X, triplets=supervision)
    lost = _euclid(X, asked) - _agreement(model, X, asked)
    return "harmed" if lost > HARM else "kept"


def attack_queries(rng, _folder):
    """Adapt to random relevance with repeated queries: nothing is there to be learned."""
    d = int(rng.integers(8, 24))
    documents = rng.normal(size=(int(rng.integers(100, 300)), d))
    queries = np.repeat(rng.normal(size=(int(rng.integers(10, 40)), d)), 4, axis=0)
    relevant = np.column_stack(
        [np.arange(len(queries)), rng.integers(len(documents), size=len(queries))]
    )
    adapter = QueryAdapter(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            adapter.fit(queries, documents, relevant)
        except WANTED:
            return "refused"
    return "harmed" if adapter.improved_ else "kept"


def attack_persons(rng, _folder):
    """Learn kinds of people from coin flips: refused, or finite, and no harm."""
    X, answer = draw_truth(rng)
    supervision = flip(rng, answer(draw_rows(rng, len(X), 200)), 0.5)
    asked = answer(draw_rows(rng, len(X), 2000))
    model = PersonalMetrics()
    try:
        _fit(model, X, triplets=supervision, who=rng.integers(5, size=len(supervision)))
    except WANTED:
        return "refused"
    agreed = [_agreement(model.metric_for(who), X, asked) for who in model.persons_]
    return "harmed" if _euclid(X, asked) - np.mean(agreed) > HARM else "kept"


def attack_kinds(rng, _folder):
    """Learn from persons of two kinds: own metrics close a quarter of the gap to the truth."""
    n, d, n_persons = int(rng.integers(40, 80)), int(rng.integers(2, 5)), int(rng.integers(6, 12))
    X, before, after = rng.normal(size=(n, d)), [], []
    supervision, asked = [], []
    for person in range(n_persons):
        scale = np.where(np.arange(d) % 2 == person % 2, 1.0, 0.1)
        for rows, into in ((draw_rows(rng, n, 80), supervision), (draw_rows(rng, n, 300), asked)):
            near, far = (
                np.sum(np.square((X[rows[:, 0]] - X[rows[:, k]]) * scale), axis=1) for k in (1, 2)
            )
            into.append(np.where((near < far)[:, None], rows, rows[:, [0, 2, 1]]))
    model = PersonalMetrics()
    who = np.repeat(np.arange(n_persons), 80)
    _fit(model, X, triplets=flip(rng, np.concatenate(supervision), 0.1), who=who)
    for person, rows in enumerate(asked):
        before.append(_euclid(X, rows))
        after.append(_agreement(model.metric_for(person), X, rows))
    used = np.mean(after) >= np.mean(before) + 0.25 * (1 - np.mean(before))
    return "kept" if used else "harmed"


def attack_places(rng, _folder):
    """Learn places from samples in corners, opposite ones alike, in any unit and far from zero."""
    corner = rng.integers(4, size=int(rng.integers(110, 200)))
    X = np.array([[0, 0], [0, 5], [5, 5], [5, 0]])[corner] + rng.normal(size=(len(corner), 2))
    X = np.hstack([X, rng.normal(size=(len(X), int(rng.integers(3))))])
    rows = draw_rows(rng, len(X), 3000)
    alike = (corner[rows[:, [0]]] - corner[rows]) % 2 == 0
    supervision = rows[alike[:, 1] & ~alike[:, 2]]
    how = str(rng.choice(["true", "coin flips", "swapped"]))
    given = flip(rng, supervision, {"true": 0.1, "coin flips": 0.5, "swapped": 1.0}[how])
    unit, shift = 10.0 ** float(rng.uniform(-20, 40)), 10.0 ** float(rng.uniform(0, 6))
    model = LocalMDaML(random_state=0)
    try:
        told = _fit(model, (X + shift) * unit, triplets=given)
    except WANTED as error:
        raise Broken(f"LocalMDaML refused a unit of {unit:.1e}: {error}") from error
    agreed = _agreement(model, (X + shift) * unit, supervision)
    check(np.isfinite(agreed), "LocalMDaML", how, "agreement is not finite")
    if how == "swapped":
        check(any("swap" in text.lower() for text in told), "LocalMDaML swapped:", told)
    kept = agreed > 0.8 if how == "true" else agreed > _euclid(X, supervision) - HARM
    return f"{how} {'kept' if kept else 'harmed'}"


def attack_copies(rng, _folder):
    """Learn from coin flips about rows that are there several times, equal up to rounding."""
    X, answer = draw_truth(rng)
    n, n_copies = min(len(X), 40), int(rng.integers(2, 5))
    rounding = float(rng.choice([0.0, 1e-12, 1e-9]))
    copies = np.concatenate([X[:n]] * n_copies)
    copies += rounding * rng.normal(size=copies.shape)
    supervision = flip(rng, draw_rows(rng, n, int(rng.integers(40, 120))), 0.5)
    supervision = np.concatenate(
        [supervision + n * rng.integers(n_copies, size=supervision.shape) for _ in range(4)]
    )
    asked = answer(draw_rows(rng, n, 1000))
    model = MDaML(random_state=0)
    _fit(model, copies, triplets=supervision)
    lost = _euclid(X, asked) - _agreement(model, X, asked)
    return "harmed" if lost > HARM else "kept"


def attack_ties(rng, _folder):
    """Learn from coin flips about items on a grid, given once or many times: the start stays."""
    n, d = int(rng.integers(6, 60)), int(rng.integers(2, 4))
    X = rng.integers(3, size=(n, d)).astype(float)
    supervision = np.repeat(
        draw_rows(rng, n, int(rng.integers(20, 150))), int(rng.choice([1, 20])), axis=0
    )
    if rng.random() < 0.5:
        model = MDaML(random_state=0)
    else:
        scoring = str(rng.choice(["comparisons", "neighbors"]))
        model = MetricSearchCV(MDaML(1), {"anchor": [0.1, 3.0]}, scoring=scoring, random_state=0)
    try:
        _fit(model, X, triplets=supervision)
    except WANTED:
        return "refused"
    return "kept" if model.start_kept_ else "harmed"


def attack_guessers(rng, _folder):
    """Learn metrics of persons of whom one guesses: those of the others lose nothing by it."""
    X, answer = draw_truth(rng)
    n_persons = int(rng.integers(2, 5))
    supervision = flip(rng, answer(draw_rows(rng, len(X), 80 * n_persons)), 0.1)
    who = rng.integers(n_persons, size=len(supervision))
    supervision[who == 0] = flip(rng, supervision[who == 0], 0.5)
    asked = answer(draw_rows(rng, len(X), 1000))
    model = PersonalMetrics()
    _fit(model, X, triplets=supervision, who=who)
    others = [_agreement(model.metric_for(p), X, asked) for p in model.persons_ if p != 0]
    lost = _agreement(model.metric_, X, asked) - np.mean(others)
    return "harmed" if lost > HARM else "kept"


def attack_chunks_of_labels(rng, _folder):
    """Learn from labels of which a few come first: what one fit surely gains is not declined."""
    n, d = int(rng.integers(80, 200)), int(rng.integers(4, 9))
    y = rng.integers(3, size=n)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(0, 0.7, d)
    X[:, 0] = 2.0 * y + rng.normal(size=n)
    whole, parts = MDaML(random_state=0), MDaML(random_state=0)
    _fit(whole, X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in np.split(np.arange(n), [10, 40]):
            parts.partial_fit(X[rows], y[rows])
    if whole.start_kept_ or whole.gain_["low"] < HARM:
        return "open"
    return "harmed" if parts.start_kept_ else "kept"


def _draw_log(rng):
    """Return queries, documents, and a log of clicks that follow the position or nothing."""
    d, n_shown = int(rng.integers(4, 12)), int(rng.integers(2, 8))
    X, Q = (rng.normal(size=(int(rng.integers(low, 80)), d)) for low in (n_shown, 2))
    shown = np.argsort(-(Q @ X.T) + rng.normal(size=(len(Q), len(X))), axis=1)[:, :n_shown]
    n_visits, by_position = int(rng.integers(1, 4)), rng.random() < 0.5
    rows = [
        (
            query,
            document,
            place + 1,
            int(rng.random() < (1 / (place + 1) if by_position else 0.3)),
            f"visit {visit}",
        )
        for query in range(len(Q))
        for visit in range(n_visits)
        for place, document in enumerate(shown[query])
    ]
    return Q, X, rows


def attack_clicks(rng, _folder):
    """Adapt to clicks that say nothing of documents: the vectors stay, in any order of lists."""
    Q, X, rows = _draw_log(rng)
    similarity = str(rng.choice(["cosine", "dot", "euclidean"]))
    settings = {"similarity": similarity, "rank": [None, 1][int(rng.integers(2))]}
    model, other = (QueryAdapter(random_state=0, max_iter=20, **settings) for _ in range(2))
    order = rng.permutation(len(rows))
    try:
        told = _fit(model, Q, X, clicks=rows)
    except WANTED:
        return "refused"
    _fit(other, Q, X, clicks=[rows[place] for place in order])
    same = np.array_equal(model.components_, other.components_)
    check(same, "a log of", len(rows), "rows in another order:", settings)
    check(model.improved_ or told, "no warning of a log that changes nothing", settings)
    check("nan" not in model.summary(), model.summary())
    return "harmed" if model.improved_ else "kept"


STATISTICAL = (
    attack_coin_flips,
    attack_true_answers,
    attack_odd_one_out,
    attack_queries,
    attack_persons,
    attack_chunks,
    attack_kinds,
    attack_places,
    attack_clicks,
    attack_copies,
    attack_ties,
    attack_guessers,
    attack_chunks_of_labels,
)
EXACT = (attack_swapped, attack_duplicates)


def attack(rng, folder):
    """Run one of the attacks; its name is part of the word that is returned."""
    one = (*STATISTICAL, *EXACT)[int(rng.integers(len(STATISTICAL) + len(EXACT)))]
    return f"{one.__name__.removeprefix('attack_')}: {one(rng, folder)}"


def judge(outcomes):
    """Yield a sentence for each kind of attack that did harm more often than it may.

    With few cases one more than the share is let pass: it may be chance.
    """
    for one in STATISTICAL:
        name = one.__name__.removeprefix("attack_")
        own = {word: n for word, n in outcomes.items() if word.startswith(f"{name}: ")}
        harmed = sum(n for word, n in own.items() if word.endswith("harmed"))
        total = harmed + sum(n for word, n in own.items() if word.endswith("kept"))
        if harmed > (1 - NO_HARM) * total + 1:
            yield f"{name}: {harmed} of {total} cases did harm, {1 - NO_HARM:.0%} may"
