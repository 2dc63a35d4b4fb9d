"""Thousands of hostile requests to a real server: no error, no leak, no answer nobody gave."""

import json
import secrets
import socket
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from ask_site import make_answer, read_token

from mdaml.ask.storage import Storage

pytestmark = pytest.mark.needs("POSIX", "uvicorn")

SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
from ask_site import make_items, make_site
from mdaml.ask.running import Running
from mdaml.ask.security import Access
if __name__ == "__main__":
    access = Access(is_open=False, hosts=("127.0.0.1", "localhost"), most_guests=20)
    more = {"access": access, "intro": "Secret words of the intro."}
    site, other = (make_site(sys.argv[2], make_items(), study=s, **more) for s in ("", "fish"))
    running = Running(site, other, port=0, learns=False)
    person = f"/p/{site.signer.seal('person', 'ann')}"
    join = f"/join/{site.signer.sign('join')}"
    tell = lambda: print(running.url, site.owner_path(), person, join, flush=True)
    running.run(tell)
"""
PATHS = [
    *["/", "/ask", "/owner", "/owner/", "//owner", "/api/owner", "/api/answers", "/api/links"],
    *["/owner/answers.csv", "/owner/answers.parquet", "/owner/answers.exe", "/owner/model.mdaml"],
    *["/media/0/0", "/media/-1/0", "/media/0/..%2f..%2fanswers.db", "/media/9999999999999999/0"],
    *["/static/ask.js", "/static/../server.py", "/static/%2e%2e%2fserver.py", "/answers.db"],
    *["/start", "/%00", "/%ff%fe", "/" + "a" * 5000, "/p/", "/o/", "/join/", "/api/", "/?a=[b"],
    *["/s", "/s/", "/s/fish", "/s/fish/", "/s/fish/owner", "/s/fish/api/owner", "/s/fish/ask"],
    *["/s/fish/owner/answers.csv", "/s/fish/../owner", "/s/other/", "/s/%2e%2e/", "/s/fish%00/"],
]
METHODS = ["GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X" * 30]
HOSTS = [
    "127.0.0.1",
    "localhost",
    "[::1",
    "[::1]",
    "evil.example",
    "",
    "a@127.0.0.1",
    "127.0.0.1:x",
]
ORIGINS = [None, "null", "http://evil.example", "http://[::1", "http://127.0.0.1", "file://", "]["]
RAW = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n",
    b"POST /start HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /start HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked"
    b"\r\n\r\n0\r\n\r\nGET /owner HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"\x00" * 3000,
    b"GET /\xff HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " + b"a=b;" * 4000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
]


class Server:
    """A server in a process of its own whose log is kept, and which may open so many files."""

    def __init__(self, folder, n_files=1024):
        self.place, self.log = folder / "answers.db", folder / "log.txt"
        script = folder / "server.py"
        script.write_text(SERVER)
        here = str(Path(__file__).parent)
        limited = ["sh", "-c", f'ulimit -n {n_files} && exec "$@"', "sh"]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [*limited, sys.executable, script, here, self.place],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.url, self.owner, self.person, self.join = self.process.stdout.readline().split()
        self.clients = []
        self.port = int(self.url.rpartition(":")[2])

    def connect(self, **more):
        """Return a client, which is closed with the server."""
        # Reading certificates for each would take longer than all its requests.
        self.clients.append(httpx.Client(base_url=self.url, timeout=20, verify=False, **more))
        return self.clients[-1]

    def look(self):
        """Return the answers and persons of the study that is attacked."""
        storage = Storage(self.place)
        stored = [(a["id"], a["answer"]) for a in storage.answers()]
        found = stored, {row["id"] for row in storage.persons()}
        storage.close()
        return found

    def stop(self):
        for client in self.clients:
            client.close()
        self.process.terminate()
        self.process.wait(60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Start one server for all attacks, one after the other."""
    made = Server(tmp_path_factory.mktemp("attacked"))
    yield made
    made.stop()


class Attacker:
    """Sends what a request may be made of in random mixtures, and keeps what comes back."""

    def __init__(self, server, seed=0):
        self.server, self.rng = server, np.random.default_rng(seed)
        self.client = server.connect()
        self.codes, self.bodies = {}, b""

    def pick(self, some):
        return some[int(self.rng.integers(len(some)))]

    def attack(self):
        kind = self.rng.random()
        if kind < 0.15:
            self.send_raw(self.pick(RAW))
        elif kind < 0.35:
            self.try_link()
        else:
            self.request()

    def request(self):
        body = self.pick(
            [
                *[b"", b"{}", b"[" * 30_000, b"\xff\xfe", b'{"events": 1}', b'{"events": [[]]}'],
                *[b"name=eve&token=", b"a" * 70_000, b'{"names": ["eve"]}', b"&" * 5000],
                json.dumps({"events": [make_answer("0" * 16)] * 100}).encode(),
                json.dumps(
                    {"events": [{"undo": "\0" * 8}, {"id": "\0" * 9}, None, 1e309]}
                ).encode(),
            ]
        )
        headers = {"host": self.pick(HOSTS), "x-page-token": self.make_token()}
        origin, site = self.pick(ORIGINS), self.pick([None, "same-origin", "cross-site", "x"])
        headers |= {} if origin is None else {"origin": origin}
        headers |= {} if site is None else {"sec-fetch-site": site}
        if self.rng.random() < 0.5:
            name = self.pick(["mdaml_person", "mdaml_owner", "mdaml_00000000__owner"])
            headers["cookie"] = f"{name}={self.make_token()}; {'x' * 30}"
        self.note(
            self.client.request(
                self.pick(METHODS),
                self.server.url + self.pick(PATHS),
                content=body,
                headers=headers,
            )
        )

    def try_link(self):
        path = self.pick(["/o/", "/p/", "/join/", "/s/fish/o/", "/s/fish/p/"]) + quote(
            self.make_token(), safe=""
        )
        self.note(self.client.request(self.pick(["GET", "POST"]), path))

    def make_token(self):
        return self.pick(
            [
                *["", "0" * 40, secrets.token_hex(20), "YW5u." + "0" * 40, "\x7f", "YW5u", "...."],
                *[self.server.owner[3:-1] + "0", self.server.person[3:-1], "a" * 4000],
            ]
        )

    def send_raw(self, words):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=20) as made:
            try:
                made.sendall(words)
                made.shutdown(socket.SHUT_WR)
                reply = made.recv(65536)
            except ConnectionError:  # closed before everything was sent
                return
        code = int(reply[9:12]) if reply.startswith(b"HTTP/1.1 ") else 0
        self.codes[code] = self.codes.get(code, 0) + 1
        self.bodies += reply[:2000]

    def note(self, reply):
        self.codes[reply.status_code] = self.codes.get(reply.status_code, 0) + 1
        if "javascript" not in reply.headers.get("content-type", ""):
            self.bodies += reply.content[:2000]


def enter(server):
    """Let an invited person in; return a client and the headers of its page."""
    client = server.connect(follow_redirects=True)
    token = read_token(client.get(server.person).text)
    client.post("/start", data={"consent": "yes", "token": token})
    return client, {"x-page-token": read_token(client.get("/ask").text)}


@pytest.mark.parametrize("n", [300, pytest.param(20_000, marks=pytest.mark.slow)])
def test_hostile_requests_find_nothing_and_change_nothing(server, n):
    client, headers = enter(server)
    (given, persons), attacker = server.look(), Attacker(server)
    for k in range(n):
        attacker.attack()
        if k % (n // 10) == 0:  # meanwhile people go on
            reply = client.post("/api/answers", json={"events": []}, headers=headers).json()
            event = make_answer(reply["questions"][0]["id"])
            for _ in range(2):  # a replay changes nothing
                reply = client.post("/api/answers", json={"events": [event]}, headers=headers)
                assert reply.status_code == 200, reply.text
            given.append((event["question"], event["id"]))
    assert not [code for code in attacker.codes if code >= 500], attacker.codes
    assert set(attacker.codes) >= {400, 403, 404, 421}
    assert server.look() == (given, persons)
    storage = Storage(server.place)
    other = Storage(server.place, "fish")
    assert other.answers() == other.persons() == []
    other.close()
    secret = storage.read_setting("secret")
    storage.close()
    for word in (secret, server.owner, "Secret words", "item 1", "Traceback", "sqlite", "eve"):
        assert word.encode() not in attacker.bodies, word
    assert server.log.stat().st_size < 100_000


@pytest.fixture
def many_files():
    """Let this process open enough files for a flood."""
    import resource  # Windows has none

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.usefixtures("many_files")
def test_more_half_open_connections_than_files_stop_nobody(server):
    client, headers = enter(server)
    flood = []
    for _ in range(1100):
        flood.append(socket.create_connection(("127.0.0.1", server.port), timeout=20))
        flood[-1].sendall(b"GET / HTTP/1.1\r\n")
    for _ in range(5):
        reply = client.post("/api/answers", json={"events": []}, headers=headers)
        assert reply.status_code == 200
        stranger = httpx.get(server.url, verify=False)
        assert stranger.status_code == 401  # on a new connection
    for made in flood:
        made.close()
    assert server.log.stat().st_size < 100_000


def test_whoever_has_a_link_gets_no_further_by_it(server):
    """Replays of tokens, cookies and questions of others, floods of guests."""
    ann, ann_headers = enter(server)
    (given, _), guests = server.look(), []
    for _ in range(30):
        client = server.connect(follow_redirects=True)
        page = client.get(server.join)
        client.post(server.join, data={"token": read_token(page.text)})
        guests.append(client)
    assert len(server.look()[1]) == 21
    eve = guests[0]
    assert eve.post("/api/answers", json={"events": []}, headers=ann_headers).status_code == 403
    token = read_token(eve.get("/").text)
    asked = eve.post("/api/answers", json={"events": []}, headers={"x-page-token": token})
    assert asked.status_code == 403, "no consent yet"
    eve.post("/start", data={"consent": "yes", "token": token, "name": "ann"})
    headers = {"x-page-token": read_token(eve.get("/ask").text)}
    question = ann.post("/api/answers", json={"events": []}, headers=ann_headers).json()
    event = make_answer(question["questions"][0]["id"])
    reply = eve.post("/api/answers", json={"events": [event]}, headers=headers).json()
    assert reply["refused"] == ["There is no such question."]
    for path in ("/owner", "/api/owner", "/owner/answers.csv", "/owner/model.mdaml"):
        assert eve.get(path).status_code == 403
    assert eve.post("/api/links", json={"names": ["x"]}, headers=headers).status_code == 403
    assert server.look()[0] == given
