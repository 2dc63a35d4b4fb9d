"""Whatever happens in a study, and in whichever order: it ends in the fit of what is stored."""

from contextlib import contextmanager

import pytest
from ask_site import check_model, make_items
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage

pytestmark = pytest.mark.needs("pandas", "uvicorn")

ITEMS = make_items(20, 2)
# Not shrunk: a second for each of hundreds of trials would take minutes.
QUICK = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    max_examples=3,
    phases=(Phase.generate,),
)
NUMBERS = st.integers(0, 5)
PERSONS = st.sampled_from(["ann", "bob", "cleo"])
GIVEN = st.tuples(st.sampled_from(["right", "wrong", "unsure", "skip"]), PERSONS)
CHANGED = st.tuples(st.sampled_from(["undo", "correct"]), PERSONS, NUMBERS)
ENDED = st.sampled_from([("step",), ("restart the learner",), ("restart the server",)])
# A process dies at one of its next commits, before it or right after it.
KILLED = st.tuples(st.sampled_from(["kill the learner", "kill the server"]), NUMBERS, st.booleans())
EVENTS = st.lists(st.one_of(GIVEN, GIVEN, CHANGED, ENDED, KILLED), min_size=10, max_size=60)


class KilledError(BaseException):
    """The process has ended here."""


class Mortal(Storage):
    """A database whose process dies at a commit."""

    commits_left, is_late = None, False

    @contextmanager
    def write(self, **more):
        with super().write(**more) as change:
            yield change
            if self.commits_left == 0 and not self.is_late:
                raise KilledError  # nothing of the transaction is kept
        if self.commits_left == 0:
            raise KilledError
        if self.commits_left is not None:
            self.commits_left -= 1


class World:
    """A server, a learner and what persons know that they have said."""

    def __init__(self, place):
        self.place, self.n, self.supervision = place, 0, {}
        self.start_server()
        self.start_learner()

    def start_server(self):
        storage = Mortal(self.place)
        self.site = Site(ITEMS, Plan(held_out=0.3), storage, seed=0)

    def start_learner(self):
        self.learner = Learner(Mortal(self.place), ITEMS, 0)

    def send(self, person, *events):
        """Send events until they are confirmed, as a browser does; return the reply."""
        while True:
            try:
                return self.site.collector.submit(person, list(events)).result()
            except KilledError:
                self.site.storage.close()  # its thread waits for ever
                self.start_server()

    def give(self, how, person):
        question = self.send(person)["questions"][0]
        a, b, c = (ITEMS.X[ITEMS.rows[name]][0] for name in question["items"])
        choice = 1 if (abs(a - b) < abs(a - c)) != (how == "wrong") else 2
        outcome = how if how in ("unsure", "skip") else "answer"
        self.store(person, question["id"], outcome, [choice] if outcome == "answer" else [])

    def store(self, person, question, outcome, choice):
        self.n += 1
        made = {"id": f"{self.n:012}", "question": question, "outcome": outcome, "seconds": 1.0}
        assert self.send(person, made | {"choice": choice})["refused"] == []
        self.supervision[made["id"]] = person, question, outcome, choice

    def change(self, how, person, back):
        """Take back one of the last answers of a person, and perhaps give the opposite one."""
        own = [key for key, supervision in self.supervision.items() if supervision[0] == person]
        if not own:
            return
        key = own[-1 - back % len(own)]
        _, question, _, choice = self.supervision.pop(key)
        self.send(person, {"undo": key})
        if how == "correct":
            self.store(person, question, "answer", [3 - choice[0]] if choice else [1])

    def step(self):
        try:
            return self.learner.step()
        except KilledError:
            self.start_learner()
            return True

    def play(self, kind, *more):
        if kind in ("right", "wrong", "unsure", "skip"):
            self.give(kind, *more)
        elif kind in ("undo", "correct"):
            self.change(kind, *more)
        elif kind == "step":
            self.step()
        elif kind == "restart the learner":
            self.start_learner()
        elif kind == "restart the server":
            self.site.close()
            self.start_server()
        else:
            storage = self.learner._storage if kind == "kill the learner" else self.site.storage
            storage.commits_left, storage.is_late = more

    def check(self):
        stored = {a["answer"]: a for a in self.site.storage.answers()}
        assert stored.keys() == self.supervision.keys()
        for key, (person, question, outcome, choice) in self.supervision.items():
            row = stored[key]
            assert (row["person"], row["id"]) == (person, question)
            assert (row["outcome"], row["choice"]) == (outcome, choice)
        return check_model(self.site.storage, ITEMS)


def live_through(place, events):
    world = World(place)
    for happens in [("right", "ann")] * 8 + events:
        world.play(*happens)
    world.learner._storage.commits_left = None
    for _ in range(5):
        world.step()
    assert not world.step()
    event(world.check())
    world.site.close()


@given(EVENTS)
@QUICK
def test_any_order_of_events_ends_in_the_model_of_a_whole_fit(tmp_path_factory, events):
    live_through(tmp_path_factory.mktemp("study") / "answers.db", events)


@pytest.mark.slow
@given(EVENTS)
@settings(QUICK, max_examples=60)
def test_any_of_many_orders_of_events_ends_there(tmp_path_factory, events):
    live_through(tmp_path_factory.mktemp("study") / "answers.db", events)
