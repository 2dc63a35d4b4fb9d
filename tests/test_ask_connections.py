"""Connections that send nothing, or half a request, stop nobody and fill no log."""

import logging
import socket
import time

import httpx
import pytest
from ask_site import make_site

from mdaml.ask import connections
from mdaml.ask.connections import Connection, limit_connections, spare_log
from mdaml.ask.running import Running


@pytest.fixture
def run(tmp_path, monkeypatch):
    started = []

    def start(most, deadline):
        def limit():
            return type("Small", (Connection,), {"most": most, "deadline": deadline})

        monkeypatch.setattr("mdaml.ask.running.limit_connections", limit)
        running = Running(make_site(tmp_path / "answers.db"), port=0, learns=False)
        running.start()
        started.append(running)
        return running

    yield start
    for running in started:
        running.close()


def connect(running, words=b""):
    made = socket.create_connection(("127.0.0.1", running.port), timeout=5)
    made.sendall(words)
    return made


def is_closed(made, seconds):
    made.settimeout(seconds)
    try:
        return made.recv(1) == b""
    except ConnectionError:
        return True
    except TimeoutError:
        return False


def test_half_open_connections_make_room_for_others(run):
    running = run(20, 60.0)
    half_open = [connect(running, b"GET / HTTP/1.1\r\n") for _ in range(60)]
    assert httpx.get(running.url).status_code == 200
    assert is_closed(half_open[0], 2)
    assert not is_closed(half_open[-1], 0.1)
    for made in half_open:
        made.close()


@pytest.mark.parametrize(
    "words",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /start HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\nname=a",
    ],
)
def test_a_request_that_does_not_come_is_not_waited_for(run, words):
    running = run(100, 0.4)
    made, began = connect(running, words), time.monotonic()
    assert is_closed(made, 5)
    assert 0.2 < time.monotonic() - began < 3
    made.close()


def test_a_request_that_breaks_off_is_no_failure_of_the_server(run, capfd):
    running = run(100, 5.0)
    head = b"POST /start HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\nname=a"
    for _ in range(3):
        made = connect(running, head)
        time.sleep(0.1)
        made.close()
    assert httpx.get(running.url).status_code == 200
    running.stop()
    running._thread.join()
    assert "Traceback" not in capfd.readouterr().err


def test_a_browser_may_send_one_request_after_another(run):
    running = run(100, 0.4)
    with httpx.Client(base_url=running.url) as client:
        for _ in range(4):
            assert client.get("/").status_code == 200
            time.sleep(0.2)


def test_answers_are_sent_at_once(run):
    running = run(100, 5.0)
    with httpx.Client(base_url=running.url) as client:
        times = []
        for _ in range(11):
            began = time.perf_counter()
            client.get("/")
            times.append(time.perf_counter() - began)
    assert sorted(times)[5] < 0.035  # the kernel holds the second part of an answer back for 40 ms


def test_floods_write_few_lines(caplog):
    with spare_log("uvicorn.error"):
        for _ in range(1000):
            logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    assert len(caplog.records) == 30
    assert caplog.records[-1].getMessage().endswith("(more lines are left out)")
    logging.getLogger("uvicorn.error").warning("again")
    assert len(caplog.records) == 31


@pytest.mark.needs("POSIX")
def test_there_are_never_more_connections_than_files_may_be_open(monkeypatch):
    import resource

    given = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert limit_connections().most == 1024 - connections._SPARE_FILES
    assert given == [(1024, 1024)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1 << 20, 1 << 20))
    assert limit_connections().most == connections.MOST_CONNECTIONS
