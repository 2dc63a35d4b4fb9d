"""``mdaml ask`` behind nginx and Caddy with TLS, by the files of the guide; the container file."""

import json
import re
import shlex
import socket
import ssl
import subprocess
import time
import tomllib
from pathlib import Path

import httpx
import pytest
from ask_site import Browser, make_items, make_site, read_token
from suite.needs import ROOT, find_server
from typer.testing import CliRunner

from mdaml.ask.running import Running
from mdaml.ask.security import make_access
from mdaml.cli import build_app

FILES = ROOT / "docs" / "ask"
pytestmark = [pytest.mark.needs("pandas", "uvicorn", "POSIX")]
SERVERS = [
    pytest.param("nginx", marks=pytest.mark.needs("nginx")),
    pytest.param("caddy", marks=pytest.mark.needs("Caddy")),
]


def free_port():
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return made.getsockname()[1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Return the files of a certificate for localhost, and of its key."""
    folder = tmp_path_factory.mktemp("certificate")
    pair = folder / "fullchain.pem", folder / "privkey.pem"
    made = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-out", str(pair[0]), "-keyout", str(pair[1])]
    subprocess.run([*shlex.split(made), *names, *files], check=True, capture_output=True)
    return pair


def put_in(text, **places):
    """Replace what a reader of the guide replaces, each exactly as it stands there."""
    for old, new in places.values():
        assert old in text, old
        text = text.replace(old, new)
    return text


def write_nginx(folder, certificate, ports, upstream, prefix):
    text = put_in(
        (FILES / "nginx.conf").read_text(),
        upstream=("http://127.0.0.1:8765;", f"http://127.0.0.1:{upstream}{prefix and '/'};"),
        path=("location / {", f"location {prefix}/ {{"),
        plain=("listen 80;", f"listen 127.0.0.1:{ports[0]};"),
        tls=("listen 443 ssl;", f"listen 127.0.0.1:{ports[1]} ssl;"),
        target=("https://$http_host", f"https://localhost:{ports[1]}"),
        certificate=("/etc/letsencrypt/live/ask.example.org/fullchain.pem", str(certificate[0])),
        key=("/etc/letsencrypt/live/ask.example.org/privkey.pem", str(certificate[1])),
        name=("server_name ask.example.org;", "server_name localhost;"),
    )
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    room = "".join(f"{kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    path = folder / "whole.conf"
    path.write_text(
        f"pid {folder}/pid;\nerror_log {folder}/error.log;\ndaemon off;\nmaster_process off;\n"
        f"events {{}}\nhttp {{\n{room}access_log {folder}/access.log;\n{text}}}\n"
    )
    return [find_server("nginx"), "-p", str(folder), "-c", str(path)]


def write_caddy(folder, certificate, ports, upstream, prefix):
    pair = " ".join(map(str, certificate))
    address = f"https://localhost:{ports[1]} {{\n\tbind 127.0.0.1\n\ttls {pair}\n"
    text = put_in(
        (FILES / "Caddyfile").read_text(),
        upstream=("127.0.0.1:8765", f"127.0.0.1:{upstream}"),
        name=("ask.example.org {\n", address),
    )
    if prefix:
        text = put_in(
            text,
            path=("\treverse_proxy", f"\thandle_path {prefix}/* {{\n\treverse_proxy"),
            end=("\t\t}\n\t}\n}\n", "\t\t}\n\t}\n\t}\n}\n"),
        )
    path = folder / "Caddyfile"
    path.write_text(
        f"{{\n\tadmin off\n\thttp_port {ports[0]}\n\tdefault_bind 127.0.0.1\n}}\n{text}"
    )
    return [find_server("caddy"), "run", "--adapter", "caddyfile", "--config", str(path)]


@pytest.fixture
def proxy(tmp_path, certificate):
    """Start a proxy with a site behind it; return both, and a client that trusts the proxy."""
    opened = []

    def start(name, prefix=""):
        ports = free_port(), free_port()
        public = f"https://localhost:{ports[1]}{prefix}"
        site = make_site(
            tmp_path / "answers.db", make_items(), access=make_access("127.0.0.1", public)
        )
        running = Running(site, port=0, learns=False)
        running.start()
        opened.append(running.close)
        write = {"nginx": write_nginx, "caddy": write_caddy}[name]
        words = write(tmp_path, certificate, ports, running.port, prefix)
        log = (tmp_path / "log").open("wb")
        environment = {"HOME": str(tmp_path), "PATH": ""}
        process = subprocess.Popen(words, env=environment, stdout=log, stderr=log)
        opened.extend([log.close, process.wait, process.terminate])
        wait_for(ports[1], process, tmp_path / "log")
        context = ssl.create_default_context(cafile=certificate[0])
        client = httpx.Client(base_url=public, verify=context, follow_redirects=True)
        opened.append(client.close)
        return running, client, ports

    yield start
    for close in reversed(opened):
        close()


def wait_for(port, process, log):
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as made:
            if made.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    pytest.fail(f"the proxy did not start: {log.read_text()}")


@pytest.mark.parametrize("prefix", ["", "/lab"])
@pytest.mark.parametrize("name", SERVERS)
def test_a_study_runs_behind_a_proxy(proxy, name, prefix, tmp_path):
    running, client, ports = proxy(name, prefix)
    public = f"https://localhost:{ports[1]}{prefix}"
    assert running.owner_url.startswith(f"{public}/o/")
    page = client.get(running.owner_url)
    assert page.status_code == 200, page.text
    assert str(page.url) == f"{public}/owner"
    assert all(cookie.secure for cookie in client.cookies.jar)
    headers = {"x-page-token": read_token(page.text), "origin": f"https://localhost:{ports[1]}"}
    made = client.post("/api/links", json={"names": ["Zoë"]}, headers=headers).json()
    ((_, link),) = made["links"]
    assert link.startswith(f"{public}/p/")
    start = client.get(link)
    assert (start.status_code, str(start.url)) == (200, f"{public}/")
    assert client.post("/start", data={"token": read_token(start.text)}).status_code == 200
    token = read_token(client.get("/ask").text)
    headers["x-page-token"] = token
    questions = client.post("/api/answers", json={"events": []}, headers=headers)
    assert questions.status_code == 200, questions.text
    event = {"id": "answer 1", "question": questions.json()["questions"][0]["id"], "choice": [1]}
    body = {"events": [event | {"outcome": "answer", "seconds": 1}]}
    assert client.post("/api/answers", json=body, headers=headers).json()["n_answers"] == 1
    # Another site, and a request that is too large.
    evil = headers | {"origin": "https://evil.example"}
    assert client.post("/api/answers", json=body, headers=evil).status_code == 403
    large = client.post("/api/answers", content=b"x" * 70_000, headers=headers)
    assert large.status_code == 413
    for path in ("/static/ask.js", "/owner", "/api/owner", "/owner/answers.csv"):
        assert client.get(path).status_code == 200, path
    with httpx.Client() as plain:  # without TLS
        moved = plain.get(f"http://localhost:{ports[0]}/")
    assert moved.status_code in (301, 308)
    assert moved.headers["location"].startswith("https://localhost")
    written = "".join(
        path.read_text(errors="replace") for path in tmp_path.glob("*log") if path.is_file()
    )
    assert running.site.signer.sign("owner") not in written
    assert link.rpartition("/")[2] not in written


@pytest.mark.parametrize("name", SERVERS)
def test_visitors_cannot_pretend_another_address_to_a_proxy(proxy, name):
    _, client, _ = proxy(name)
    codes = [
        client.get("/o/wrong", headers={"x-forwarded-for": f"10.0.0.{k}"}).status_code
        for k in range(40)
    ]
    assert codes[0] == 403
    assert codes[-1] == 429


def test_links_begin_with_the_public_address(tmp_path):
    site = make_site(
        tmp_path / "answers.db", access=make_access("127.0.0.1", "https://ask.example.org/lab/")
    )
    running = Running(site, port=0, learns=False)
    assert running.owner_url.startswith("https://ask.example.org/lab/o/")
    browser = Browser(site, link=f"/o/{site.signer.sign('owner')}")
    assert browser.page.status_code == 200
    running.start()
    running.close()


@pytest.mark.parametrize(
    "url",
    [
        *["ask.example.org", "ftp://ask.example.org", "https://", "https://[::1", "https:///lab"],
        *["https://ask.example.org:99999", "https://joe@ask.example.org", "https://a.org/?b"],
    ],
)
def test_public_addresses_that_are_none_are_refused(url):
    with pytest.raises(ValueError, match="The public address must be like"):
        make_access("127.0.0.1", url)


def test_the_container_runs_a_command_that_exists():
    lines = (FILES / "Containerfile").read_text().splitlines()
    given = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines if line}
    words = json.loads(given["ENTRYPOINT"]) + json.loads(given["CMD"])
    assert words[:3] == ["mdaml", "ask", "serve"]
    shown = CliRunner().invoke(build_app(), ["ask", "serve", "--help"]).output
    for word in words[3:]:
        assert not word.startswith("--") or word in shown
    missing = CliRunner().invoke(build_app(), words[1:])
    assert "There is no database /data/answers.db" in missing.output
    assert Path(words[3]).parent == Path(given["WORKDIR"])
    assert f"chown {given['USER']} {given['WORKDIR']}" in "\n".join(lines)


def test_the_container_installs_what_there_is():
    text = (FILES / "Containerfile").read_text()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r'"/src\[(.*?)\]"', text)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    (version,) = re.findall(r"FROM python:3\.(\d+)-slim", text)
    assert f"Programming Language :: Python :: 3.{version}" in project["classifiers"]
    page = (FILES.parent / "ask_network.md").read_text()
    assert re.search('pip install "(.*?)"', page)[1] in text  # what reaches PostgreSQL
    runs = re.findall(r"mdaml-ask ((?:serve )?\S+) (--.*)", page)
    assert [what for what, _ in runs] == ["birds.csv", "serve answers.db"]
    for what, options in runs:
        command = ["ask", "serve"] if what.startswith("serve") else ["ask"]
        shown = CliRunner().invoke(build_app(), [*command, "--help"]).output
        assert all(option in shown for option in re.findall(r"--[a-z-]+", options))
