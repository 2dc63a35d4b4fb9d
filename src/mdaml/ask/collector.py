"""Stores answers and hands out questions: one thread, one commit for all requests that wait.

An answer is acknowledged after its commit, which waits for the disk. Answers that arrive meanwhile
share the next commit, so that a slow disk costs each of them two commits at most.
"""

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TypeGuard

from sqlalchemy.exc import DataError

from mdaml.ask.questions import Composer, Person, Row, check_choice
from mdaml.ask.storage import Storage, Transaction

AHEAD = 3  # questions that a browser keeps, so that it shows the next one at once
MOST_EVENTS = 100  # in one request
_MOST_REQUESTS = 64  # in one commit


@dataclass
class _Request:
    person: str
    events: Sequence[Row]
    done: "Future[Row]" = field(default_factory=Future)


class Collector:
    """The one writer of answers and questions of a server."""

    def __init__(self, storage: Storage, composer: Composer) -> None:
        self._storage, self._composer = storage, composer
        self._persons: dict[str, Person] = {}
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._version = 0
        self._stamp = storage.stamp()
        composer.remember(storage.answers(), storage.anchors())
        self._thread = threading.Thread(target=self._work, name="mdaml-answers", daemon=True)
        self._thread.start()

    def submit(self, person: str, events: Sequence[Row]) -> "Future[Row]":
        """Store what a browser reports, and return what it shows next.

        Parameters
        ----------
        person : str
            Who answers.
        events : sequence of dict
            Answers ``{"id", "question", "outcome", "choice", "seconds"}`` and ``{"undo": id}``.
            Events that arrived before change nothing.

        Returns
        -------
        future : of a dict
            ``questions`` that are open, the ``last`` one that was answered, the number of answers
            ``n_answers``, the ``limit``, and ``refused``, the reasons why events were refused.
        """
        request = _Request(person, events)
        self._requests.put(request)
        return request.done

    def close(self) -> None:
        """Store what is waiting, and stop."""
        self._requests.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._requests.get()) is not None:
            batch = [first]
            while len(batch) < _MOST_REQUESTS:
                try:
                    more = self._requests.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    self._requests.put(None)
                    break
                batch.append(more)
            self._handle(batch)

    def _handle(self, batch: Sequence[_Request]) -> None:
        """Store a batch in one commit, then acknowledge it; on an error acknowledge nothing."""
        try:
            with self._storage.write() as change:
                self._refresh(change)
                replies = [self._apply(change, request) for request in batch]
                stamp = change.stamp()
        except DataError as error:  # of one of them: the others must not wait for it
            self._persons.clear()
            if len(batch) == 1:
                batch[0].done.set_exception(error)
            for request in batch if len(batch) > 1 else ():
                self._handle([request])
            return
        except BaseException as error:  # passed to those who wait: the thread must go on
            self._persons.clear()  # they may hold what was not stored
            for request in batch:
                request.done.set_exception(error)
            return
        self._stamp = stamp
        for request, reply in zip(batch, replies, strict=True):
            request.done.set_result(reply)

    def _refresh(self, change: Transaction) -> None:
        """Read what others have written: answers of another server, questions of the learner."""
        if change.stamp() != self._stamp:
            self._persons.clear()
        if change.newest_report() > self._version:
            latest = self._storage.latest("queries", after=self._version)
            if latest is not None:
                self._version = latest["version"]
                self._composer.take_queries(latest["queries"])

    def _apply(self, change: Transaction, request: _Request) -> Row:
        name, refused = request.person, []
        person = self._load(name)
        for event in request.events:
            try:
                self._take(change, name, person, event)
            except ValueError as error:
                refused.append(str(error))
        plan = self._composer.plan
        n_answers = sum(question["outcome"] != "skip" for question in person.answered)
        left = AHEAD if plan.limit is None else min(AHEAD, plan.limit - n_answers)
        while len(person.open) < left:
            question = self._composer.compose(name, person)
            change.add_question(question)
            person.open.append(question)
        if person.is_stale:
            del self._persons[name]
        questions = [dict(question) for question in person.open[: max(left, 0)]]
        return {
            "questions": questions,
            "last": self._find_last(person),
            "n_answers": n_answers,
            "limit": plan.limit,
            "refused": refused,
        }

    def _find_last(self, person: Person) -> Row | None:
        """Return the last answer, which can be undone by a page that was loaded anew."""
        if not person.answered:
            return None
        last = person.answered[-1]
        return last if self._composer.fits(last) else None

    def _load(self, name: str) -> Person:
        """Return what is known of a person, from the database the first time."""
        person = self._persons.get(name)
        if person is None:
            person = self._persons[name] = Person()
            waiting = self._storage.open_questions(name)
            person.answered = self._storage.answers(name)
            person.open = [q for q in waiting if self._composer.fits(q)]
            for question in (*person.answered, *person.open):
                source = question["source"]
                person.asked["active" if source == "random" else source] += 1
        return person

    def _take(self, change: Transaction, name: str, person: Person, event: object) -> None:
        """Apply one event; an event that arrived before changes nothing."""
        if not isinstance(event, dict):
            raise ValueError("An event must be an object.")
        undo = event.get("undo")
        if undo is not None:
            if _check_id(undo):
                self._undo(change, name, person, undo)
            return
        answer_id, question_id = event.get("id"), event.get("question")
        if not (_check_id(answer_id) and _check_id(question_id)):
            raise ValueError("An answer needs an id and a question.")
        question = next((q for q in person.open if q["id"] == question_id), None)
        if question is None:
            if any(q["id"] == question_id for q in person.answered):
                return  # a retry, a double click or another tab
            raise ValueError("There is no such question.")
        choice = check_choice(
            self._composer.plan, event.get("outcome"), event.get("choice"), len(question["items"])
        )
        answer = {
            "id": answer_id,
            "question": question_id,
            "person": name,
            "outcome": event["outcome"],
            "choice": choice,
            "seconds": _check_seconds(event.get("seconds")),
        }
        if change.add_answer(answer):
            person.open.remove(question)
            person.answered.append(question | {"answer": answer_id, "outcome": answer["outcome"]})
            self._composer.note(question)
        else:  # it was undone before, or another server has an answer: look again next time
            person.is_stale = True

    def _undo(self, change: Transaction, name: str, person: Person, answer: str) -> None:
        for place, question in enumerate(person.answered):
            if question.get("answer") == answer:
                change.undo(name, answer)
                taken_back = person.answered.pop(place)
                if self._composer.fits(taken_back):
                    person.open.insert(0, taken_back)
                return


def _check_id(value: object) -> TypeGuard[str]:
    return (
        isinstance(value, str)
        and 8 <= len(value) <= 64
        and value.isascii()
        and value.isprintable()  # PostgreSQL has no NUL
    )


def _check_seconds(value: object) -> float | None:
    """Return how many seconds a person looked at a question; None if that is impossible."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < 86400 else None
