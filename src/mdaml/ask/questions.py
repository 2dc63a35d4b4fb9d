"""Which question a person gets next: a mixture of five sources in given shares."""

import secrets
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mdaml._typing import IntArray
from mdaml.constraints import Constraints

Row = dict[str, Any]  # of the database, or JSON
# A question with a known answer: the item to compare with, if there is one; the other items; and
# those to choose, none of two that are different.
Gold = tuple[list[str], list[str], set[str]]

FORMS = ("triplet", "odd", "same", "pick")
OUTCOMES = ("answer", "unsure", "skip")
GOLD = {  # columns of a file of questions with known answers
    "triplet": "a,b,c",
    "odd": "item1,item2,item3,odd",
    "same": "a,b,label",
    "pick": "anchor,shown,picked",
}
SAME, DIFFERENT = 1, 0
_QUESTIONS = {
    "triplet": "Which one is more like the one above?",
    "odd": "Which one is the odd one out?",
    "same": "Are these two the same kind of thing?",
    "pick": "{many} most like the one above?",
}
_PAUSE = 4  # questions between one and its repetition
_ASKED_AGAIN = ("held out", "active", "random")  # sources of questions that are repeated
_MOST_KNOWN = 2000  # recent answers of all persons that may be asked again


@dataclass(frozen=True)
class Plan:
    """What is asked, and the share of each source of questions.

    Parameters
    ----------
    form : {"triplet", "odd", "same", "pick"}
        More like left or right; odd one out of three; same or different; pick some of several.
    question : str or None
        The words of the question.
    pick, show : int
        How many items are picked, and from how many. An odd one out is always one of three.
    held_out, repeats, catch : float
        Shares of random questions that are never learned from, of questions asked again, and of
        questions with a known answer, if there are any. All others are chosen by the model.
    limit : int or None
        The largest number of answers of one person.

    See Also
    --------
    serve : Pages for many persons.
    Interview : Questions in a notebook.

    Examples
    --------
    >>> from mdaml.ask import Plan
    >>> Plan(form="pick", pick=1, show=4).words
    'Which one is most like the one above?'
    """

    form: str = "triplet"
    question: str | None = None
    pick: int = 2
    show: int = 6
    held_out: float = 0.2
    repeats: float = 0.1
    catch: float = 0.05
    limit: int | None = None

    def __post_init__(self) -> None:
        """Refuse shares and forms that make no sense."""
        if self.form not in FORMS:
            raise ValueError(f"The form must be one of {', '.join(FORMS)}, got {self.form!r}.")
        shares = (self.held_out, self.repeats, self.catch)
        if min(shares) < 0 or sum(shares) > 1:
            raise ValueError(f"Shares must be 0 or more and at most 1 together, got {shares}.")
        if self.form == "pick" and not 1 <= self.pick < self.show <= 20:
            raise ValueError(
                f"Picks must be fewer than the items shown, at most 20, got {self.pick} of "
                f"{self.show}."
            )
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"The limit must be at least 1, got {self.limit}.")

    @property
    def words(self) -> str:
        """The question as people read it."""
        many = "Which one is" if self.pick == 1 else f"Which {self.pick} are"
        return self.question or _QUESTIONS[self.form].format(many=many)

    @property
    def n_items(self) -> int:
        """How many items a question shows."""
        return {"triplet": 3, "odd": 3, "same": 2, "pick": self.show + 1}[self.form]


def check_choice(plan: Plan, outcome: object, choice: object, n_items: int) -> list[int]:
    """Return the places that were chosen; an error if the answer does not fit the question."""
    if outcome not in OUTCOMES:
        raise ValueError(f"The outcome must be one of {', '.join(OUTCOMES)}.")
    wanted = 0 if outcome != "answer" else plan.pick if plan.form == "pick" else 1
    first = 0 if plan.form in ("odd", "same") else 1
    last = DIFFERENT + 1 if plan.form == "same" else n_items - 1
    if (
        not isinstance(choice, list)
        or any(type(place) is not int for place in choice)
        or not len(choice) == len(set(choice)) == wanted
    ):
        raise ValueError(f"The choice must be {wanted} different places.")
    if any(not first <= place <= last for place in choice):
        raise ValueError(f"Places must be {first} to {last}.")
    return sorted(choice)


@dataclass
class Person:
    """The questions that one person has answered, and those that are open."""

    asked: Counter[str] = field(default_factory=Counter)  # by source
    answered: list[Row] = field(default_factory=list)
    open: list[Row] = field(default_factory=list)
    is_stale: bool = False  # the database knows more
    sides: int = 0  # how much more often the expected answer was to the right than to the left


class Composer:
    """Makes questions; one for all persons.

    Parameters
    ----------
    plan : Plan
        What to ask.
    ids : sequence of str
        Names of the items.
    gold : Constraints, sequence of Gold or None
        Questions with known answers, as `GOLD` says; pairs if the form is "same".
    seed : int or None
        Same seed, same questions.
    """

    def __init__(
        self,
        plan: Plan,
        ids: Sequence[str],
        gold: Constraints | Sequence[Gold] | None = None,
        seed: int | None = None,
    ) -> None:
        self.plan, self.ids = plan, list(ids)
        if plan.n_items > len(self.ids):
            raise ValueError(f"A question shows {plan.n_items} items, but there are {len(ids)}.")
        self._rows = {name: row for row, name in enumerate(self.ids)}
        self._rng = np.random.default_rng(seed)
        self._known: deque[Row] = deque(maxlen=_MOST_KNOWN)
        self._queries: list[list[str]] = []
        self._times = np.zeros(len(self.ids), int)
        if gold is None or isinstance(gold, Constraints):
            gold = _list_gold(plan, gold, self.ids)
        self.gold = [(first, others, set(right)) for first, others, right in gold]

    @property
    def shares(self) -> dict[str, float]:
        """The share of each source."""
        plan = self.plan
        parts = {"held out": plan.held_out, "repeat": plan.repeats}
        parts["catch"] = plan.catch if self.gold else 0.0
        return {"active": 1 - sum(parts.values()), **parts}

    def fits(self, question: Row) -> bool:
        """Say whether a question is one of this plan, about items that are there."""
        items, plan = question["items"], self.plan
        is_ours = question["form"] == plan.form and len(items) == plan.n_items
        return is_ours and self._rows.keys() >= set(items)

    def remember(self, answered: Sequence[Row], anchors: dict[str, int]) -> None:
        """Read the answers that are in the database."""
        for row in answered[-_MOST_KNOWN:]:
            self.note(row)
        for place, name in enumerate(self.ids):
            self._times[place] = anchors.get(name, 0)

    def note(self, question: Row) -> None:
        """Note that a question was answered: it may be asked again."""
        if question["source"] in _ASKED_AGAIN and self.fits(question):
            self._known.append(question)

    def take_queries(self, queries: Sequence[Sequence[str]]) -> None:
        """Take the questions that the latest model would ask, the best first."""
        known = self._rows.keys()
        self._queries = [list(q) for q in queries if known >= set(q)][::-1]

    def compose(self, name: str, person: Person) -> Row:
        """Return the next question of a person."""
        source = self._choose_source(person)
        made = getattr(self, f"_ask_{source.replace(' ', '_')}")(person)
        made = made or self._ask_random("random")
        self._times[self._rows[made["items"][0]]] += 1
        person.asked[source] += 1
        row = {"id": secrets.token_hex(8), "person": name, "form": self.plan.form}
        return row | {"expected": None, "repeats": None} | made

    def _choose_source(self, person: Person) -> str:
        """Return the source that is furthest behind its share; ties are broken at random."""
        total = sum(person.asked.values()) + 1
        shares = {name: share for name, share in self.shares.items() if share > 0}
        if len(person.answered) <= _PAUSE and len(self._known) <= _PAUSE:
            shares.pop("repeat", None)
        names = [str(name) for name in self._rng.permutation(list(shares))]
        return max(
            names, key=lambda name: shares[name] * total - person.asked[name], default="active"
        )

    def _ask_held_out(self, _person: Person) -> Row:
        return self._ask_random("held out", held_out=True)

    def _ask_random(self, source: str, *, held_out: bool = False) -> Row:
        """Draw items at random; the first is one that was first least often."""
        least = np.flatnonzero(self._times == self._times.min())
        anchor = int(self._rng.choice(least))
        others = self._draw_others([anchor])
        rows = [anchor, *others]
        if self.plan.form == "odd":
            self._rng.shuffle(rows)
        return {"source": source, "held_out": held_out, "items": [self.ids[r] for r in rows]}

    def _draw_others(self, taken: list[int]) -> list[int]:
        """Return more items, none twice, until a question is full."""
        drawn: list[int] = []
        while len(taken) + len(drawn) < self.plan.n_items:
            row = int(self._rng.integers(len(self.ids)))
            if row not in taken and row not in drawn:
                drawn.append(row)
        return drawn

    def _ask_active(self, person: Person) -> Row | None:
        """Take the best question left by the model; the expected answer may be on either side."""
        if not self._queries:
            return None
        a, near, far = self._queries.pop()
        if self.plan.form == "triplet":
            items = [a, *self._place(person, near, far)]
        elif self.plan.form == "same":
            items = [a, near]
        else:
            rows = [self._rows[name] for name in (a, near, far)]
            others = [near, far, *(self.ids[row] for row in self._draw_others(rows))]
            items = [a, *(others[k] for k in self._rng.permutation(len(others)))]
            if self.plan.form == "odd":
                items = [items[k] for k in self._rng.permutation(3)]
        return {"source": "active", "held_out": False, "items": items}

    def _place(self, person: Person, near: str, far: str) -> list[str]:
        """Put the expected answer on the side where it was less often."""
        right = person.sides < 0 or (person.sides == 0 and bool(self._rng.integers(2)))
        person.sides += 1 if right else -1
        return [far, near] if right else [near, far]

    def _ask_repeat(self, person: Person) -> Row | None:
        """Ask again what this or another person has answered, with the sides exchanged."""
        before = person.answered[:-_PAUSE]
        own = [q for q in before if q["source"] in _ASKED_AGAIN and self.fits(q)]
        mine = {question["id"] for question in person.answered}
        others = [q for q in self._known if q["id"] not in mine]
        both = [rows for rows in (own, others) if rows]
        if not both:
            return None
        rows = both[int(self._rng.integers(len(both)))]
        again = rows[int(self._rng.integers(len(rows)))]
        items = again["items"]
        first = [] if self.plan.form in ("odd", "same") else items[:1]
        turned = [*first, *items[len(first) :][::-1]]
        return {
            "source": "repeat",
            "held_out": bool(again["held_out"]),
            "items": turned,
            "repeats": again["id"],
        }

    def _ask_catch(self, person: Person) -> Row:
        """Ask a question with a known answer, in a random order."""
        first, others, right = self.gold[int(self._rng.integers(len(self.gold)))]
        if self.plan.form == "same":
            items, expected = others, [SAME if right else DIFFERENT]
        else:
            if self.plan.form == "triplet":
                placed = self._place(person, *others)
            else:
                placed = [others[k] for k in self._rng.permutation(len(others))]
            items = [*first, *placed]
            expected = [k for k, name in enumerate(items) if k >= len(first) and name in right]
        return {"source": "catch", "held_out": False, "items": items, "expected": expected}


def _list_gold(plan: Plan, gold: Constraints | None, ids: Sequence[str]) -> list[Gold]:
    """Return questions with known answers, in the form of the plan."""
    if gold is None:
        return []
    members = gold.pairs if plan.form == "same" else gold.triplets
    if len(members) == 0:
        raise ValueError(f"Questions with known answers need columns {GOLD[plan.form]} here.")
    named = [[ids[row] for row in rows] for rows in members]
    if plan.form == "same":
        labels = gold.pair_labels > 0
        return [
            ([], pair, set(pair) if label else set())
            for pair, label in zip(named, labels, strict=True)
        ]
    if plan.form == "triplet":
        return [([a], [b, c], {b}) for a, b, c in named]
    if plan.form == "odd":  # a is like b, and b like a: one question
        odd = {(frozenset((a, b)), c): [a, b, c] for a, b, c in named}
        return [([], three, {three[2]}) for three in odd.values()]
    return _list_picks(plan, named, gold.columns.get("answer_number"))


def _list_picks(plan: Plan, named: Sequence[Sequence[str]], answers: IntArray | None) -> list[Gold]:
    """Group the comparisons by answer or, if there are no answers, by item."""
    near: dict[tuple[str, int | None], dict[str, None]] = {}
    far: dict[tuple[str, int | None], dict[str, None]] = {}
    for k, (a, b, c) in enumerate(named):
        key = (a, None if answers is None else answers[k])
        near.setdefault(key, {})[b] = None
        far.setdefault(key, {})[c] = None
    found = []
    for key, picked in near.items():
        if len(picked) != plan.pick or len(picked) + len(far[key]) != plan.show:
            raise ValueError(
                f"Questions with known answers must show {plan.show} items of which {plan.pick} "
                f"are picked; the one about {key[0]!r} shows {len(picked) + len(far[key])} with "
                f"{len(picked)} picked. Correct it, or change --pick and --show."
            )
        found.append(([key[0]], [*picked, *far[key]], set(picked)))
    return found
