"""The server as a process: it starts, ends in peace, and a kill loses no answer."""

import signal
import socket

import pytest
from starlette.testclient import httpx

from kspr import InputError
from kspr.review.server import _listen
from tests.cli.commands import fails
from tests.review.serving import Served


@pytest.fixture
def serve(run):
    started = []

    def _serve(*options):
        started.append(Served(run, *options))
        return started[-1]

    yield _serve
    for served in started:
        if served.process.poll() is None:
            served.stop(signal.SIGKILL)


def browser(served, reviewer="Anna"):
    client = httpx.Client(base_url=served.origin, follow_redirects=True)
    assert client.get(served.address).status_code == 200
    return client


def answer_next(client):
    row = client.get("/api/rows", params={"reviewer": "Anna"}).json()["rows"][0]
    found = client.post(
        "/api/answer",
        json={"reviewer": "Anna", "queue": "check", "answers": [[row["position"], row["given"]]]},
        headers={"origin": str(client.base_url).rstrip("/")},
    )
    assert found.status_code == 200, found.text


def test_a_kill_loses_no_answer_and_an_old_address_is_worth_nothing(serve, run):
    first = serve()
    client = browser(first)
    for _ in range(3):
        answer_next(client)
    assert first.stop(signal.SIGKILL) == -signal.SIGKILL
    again = serve()
    assert again.address.rpartition("=")[2] != first.address.rpartition("=")[2]
    rows = browser(again).get("/api/rows", params={"reviewer": "Anna"}).json()
    assert rows["done"] == 3
    # Two servers on one run see each other's answers.
    other = browser(serve())
    answer_next(other)
    assert browser(again).get("/api/progress").json()["done"] == 4
    assert again.stop() == 0
    assert f"The answers are in {run}" in again.said
    assert "Traceback" not in again.said


def test_other_machines_are_warned_of_and_need_the_token(serve):
    served = serve("--host", "0.0.0.0")  # noqa: S104 - that is what is tested
    assert "Warning: other machines can reach" in served.said
    assert "127.0.0.1" in served.address
    assert httpx.get(served.origin).status_code == 403
    assert "Warning" not in serve().said


def test_it_listens_on_this_machine_only():
    with _listen("127.0.0.1", 0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"


def test_a_port_that_is_taken_is_one_sentence_and_the_usual_one_gives_way(run, capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = fails("review", run, "--port", port, "--no-browser", capsys=capsys)
        assert f"127.0.0.1, port {port} cannot be used" in said
        monkeypatch.setattr("kspr.review.server._USUAL", port)
        with _listen("127.0.0.1", None) as listening:
            assert listening.getsockname()[1] != port
    with pytest.raises(InputError, match="cannot be used"):
        _listen("203.0.113.77", 0)
    with pytest.raises(InputError, match="cannot be used"):
        _listen("127.0.0.1", 99999)


def test_the_address_is_opened_in_the_browser_if_wanted(run, monkeypatch):
    from kspr.review import server
    from kspr.review.session import Settings

    seen = []
    monkeypatch.setattr(server.webbrowser, "open", seen.append)
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: None)
    server.serve(run, Settings(), server.Place(port=0), lambda line: None)
    server.serve(run, Settings(), server.Place(port=0, browser=False), lambda line: None)
    assert len(seen) == 1
    assert "/?token=" in seen[0]
