"""A site for tests, and what a browser would do with it."""

import re
import secrets

import numpy as np
from starlette.testclient import TestClient

from mdaml.ask.answers import to_constraints
from mdaml.ask.fitting import ItemAxes, fit_whole, from_bytes
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import split_answers
from mdaml.ask.owner import speaks_against
from mdaml.ask.questions import Plan
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage
from mdaml.estimators import Euclidean

HERE = "http://127.0.0.1"


def make_items(n=30, d=3, **more):
    X = np.random.default_rng(0).normal(size=(n, d))
    ids = [f"item {row}" for row in range(n)]
    texts = Column("text", [f"Text {row}" for row in range(n)])
    return Items(ids, (texts,), X, tuple(f"x{k}" for k in range(d)), **more)


def make_site(place, items=None, plan=None, study="", **more):
    storage = Storage(place, study)
    return Site(items or make_items(), plan or Plan(), storage, **{"seed": 0, **more})


class Browser:
    """One person who answers."""

    def __init__(self, site, name="ann", link=None, client=None, root=""):
        self.client = client or TestClient(site.app(), base_url=HERE)
        self.root = root
        if link is not None:
            self.page = self.client.get(link)
            if "Take part" in self.page.text:
                self.page = self.client.post(link, data={"token": read_token(self.page.text)})
        elif site.access.is_open:
            start = self.client.get(f"{root}/").text
            form = {"name": name, "token": read_token(start), "consent": "yes"}
            self.page = self.client.post(f"{root}/start", data=form)
        self.token = read_token(self.client.get(f"{root}/ask").text)
        self.questions = []

    def post(self, *events, **headers):
        headers = {"x-page-token": self.token, "origin": HERE} | headers
        path = f"{self.root}/api/answers"
        return self.client.post(path, json={"events": list(events)}, headers=headers)

    def send(self, *events):
        reply = self.post(*events)
        assert reply.status_code == 200, reply.text
        self.questions = reply.json()["questions"]
        return reply.json()

    def answer(self, choice=(1,), outcome="answer"):
        """Answer the first open question; return the event."""
        if not self.questions:
            self.send()
        event = make_answer(self.questions[0]["id"], choice, outcome)
        self.send(event)
        return event


def fit_stored(storage, items):
    """Return the components of a whole fit to what is stored, by the shortest way."""
    space = ItemAxes.of(items.X, scaled=items.is_scaled)
    _, taught = split_answers(storage.answers())
    model = fit_whole(space, to_constraints(taught, items.ids))
    return None if model is None else space.widen(model, items.X).components_


def check_model(storage, items):
    """Check that the model of a study is that of a whole fit, or that answers speak against it."""
    wanted, latest = fit_stored(storage, items), storage.latest("model", "answers")
    if wanted is None or latest is None:
        assert wanted is latest is None
        return "no model"
    held, taught = split_answers(storage.answers())
    there = [a for a in taught if items.rows.keys() >= set(a["items"])]
    known = {a["answer"] for a in there if a["outcome"] != "skip"}
    served = from_bytes(latest["model"])
    if storage.latest("report")["report"]["declined"] is None:
        assert set(latest["answers"]) == known
        np.testing.assert_allclose(served.components_, wanted, rtol=1e-9)
        return "the model of a whole fit"
    assert set(latest["answers"]) <= known  # none that was withdrawn
    whole = Euclidean().fit(items.X)
    whole.components_ = wanted
    assert speaks_against(whole, served, items.X, to_constraints(held, items.ids))
    return "declined"


def make_answer(question, choice=(1,), outcome="answer"):
    answer = {"id": secrets.token_hex(12), "question": question, "outcome": outcome}
    return answer | {"choice": list(choice), "seconds": 1.5}


def read_token(page):
    return re.search('name="token" content="([^"]*)"', page)[1]
