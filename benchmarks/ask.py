"""How fast does ``mdaml ask`` answer under load, and how fast does it teach?

``python benchmarks/ask.py load``: 100 persons, each with an answer every two seconds, on a server
with 10 000 items of 384 features whose learner runs beside it; times of the answers, and memory.

``python benchmarks/ask.py grow``: 20 000 items of 50 features, 1140 answers to learn from
and 285 held out, then 240 right ones of six persons, twelve at a time: the share of comparisons
that the served model has right.

``python benchmarks/ask.py teach``: a simulated person who errs in 10 % of the answers, active
against random questions. The person follows a metric that was learned from all answers of real
people (material, food: a folder in ``MDAML_DATA``). Scores are of items that were never shown: how
often the model says what the person would say but for errors, and what real people said.

``python benchmarks/ask.py browser``: the same, with the person at the page in Chromium (Playwright)
and the learner in its own process.

``--save`` keeps the figures in ``results/ask.json``.
"""

import argparse
import asyncio
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import httpx
import numpy as np

from mdaml.ask.fitting import from_bytes
from mdaml.ask.items import Column, Items
from mdaml.ask.learner import Learner
from mdaml.ask.questions import Plan
from mdaml.ask.running import Running
from mdaml.ask.server import Site
from mdaml.ask.storage import Storage

RESULTS = Path(__file__).parent / "results" / "ask.json"
PAUSE = 2.0  # seconds between answers of one person
ERROR = 0.1
STEPS = (30, 60, 100, 150)


# Load


def serve(place: str) -> None:
    X = np.random.default_rng(0).normal(size=(10_000, 384))
    names = [f"item {row}" for row in range(len(X))]
    site = Site(Items(names, (Column("text", names),), X), Plan(), Storage(place))
    running = Running(site, port=0)
    running.run(lambda: print(running.url, flush=True))


async def answer(url: str, name: str, end: float, times: list[tuple[float, float]]) -> None:
    rng = np.random.default_rng(sum(name.encode()))
    await asyncio.sleep(PAUSE * rng.random())
    async with httpx.AsyncClient(base_url=url, follow_redirects=True, timeout=60) as client:

        async def page(path: str) -> str:
            return re.search('name="token" content="([^"]*)"', (await client.get(path)).text)[1]

        form = {"name": name, "token": await page("/")}
        (await client.post("/start", data=form)).raise_for_status()
        headers, events = {"x-page-token": await page("/ask")}, []
        while time.monotonic() < end:
            began = time.monotonic()
            reply = await client.post("/api/answers", json={"events": events}, headers=headers)
            times.append((began, time.monotonic() - began))
            reply.raise_for_status()
            question = reply.json()["questions"][0]["id"]
            event = {"id": secrets.token_hex(12), "question": question, "seconds": 1.0}
            events = [event | {"outcome": "answer", "choice": [int(rng.integers(1, 3))]}]
            await asyncio.sleep(max(0.0, PAUSE * rng.uniform(0.5, 1.5) - times[-1][1]))


def memory_of(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) / 1024


def learner_memory(pid: int) -> float:
    """Return the resident memory of the processes that a server started, in MB."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return sum(memory_of(int(child)) for path in children for child in path.read_text().split())


async def load_server(url: str, pid: int, persons: int, minutes: float) -> dict:
    begin, times, memory, learner, load = time.monotonic(), [], [], [], [os.getloadavg()[0]]
    end = begin + 60 * minutes
    crowd = [asyncio.create_task(answer(url, f"p{k}", end, times)) for k in range(persons)]
    while time.monotonic() < end:
        await asyncio.sleep(5)
        memory.append(round(memory_of(pid)))
        learner.append(round(learner_memory(pid)))
        load.append(os.getloadavg()[0])
    await asyncio.gather(*crowd)
    taken = np.array([t for moment, t in times if moment > begin + 10]) * 1000
    p50, p95, p99 = np.percentile(taken, [50, 95, 99]).round(1).tolist()
    return {
        "persons": persons,
        "minutes": minutes,
        "answers": len(times) - persons,
        **{"p50 ms": p50, "p95 ms": p95, "p99 ms": p99, "max ms": round(float(taken.max()), 1)},
        "server MB after 30 s": memory[:6][-1],
        "server MB at the end": memory[-1],
        "learner MB after 30 s": learner[:6][-1],
        "learner MB at the end": learner[-1],
        "load average before": round(load[0], 1),
        "load average, mean": round(float(np.mean(load)), 1),
    }


def measure_load(persons: int, minutes: float) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder, "answers.db"))
        command = [sys.executable, __file__, "serve", "--place", place]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            url = server.stdout.readline().strip()
            found = asyncio.run(load_server(url, server.pid, persons, minutes))
        finally:
            server.terminate()
            server.wait()
        storage = Storage(place)
        found["answers stored"] = len(storage.answers())
        latest = storage.latest("answers", "model")
        found["answers in the last model"] = len(latest["answers"]) if latest else 0
        found["model MB"] = round(len(latest["model"]) / 2**20, 2) if latest else 0
        storage.close()
    return found


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
    parser.add_argument("what", choices=["load", "grow", "teach", "browser", "serve"])
    parser.add_argument("--persons", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--sets", nargs="+", default=["material", "food"])
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    parser.add_argument("--save", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "serve":
        serve(given.place)
        return
    if given.what == "load":
        found = measure_load(given.persons, given.minutes)
    elif given.what == "grow":
        found = measure_growth()
    print(json.dumps(found, indent=1))
    if given.save:
        kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
        RESULTS.write_text(
            json.dumps(kept | {given.what: found}, indent=1, ensure_ascii=False) + "\n"
        )


if __name__ == "__main__":
    main()
