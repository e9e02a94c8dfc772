"""Nobody gets in who should not: token, host, origin, methods, headers."""

import hmac

import pytest

from kspr.review import server
from kspr.review.server import Access, is_loopback
from tests.review.conftest import HOST, Client

GETS = [
    *("/", "/static/main.js", "/image/0", "/api/start", "/api/rows", "/api/row/0"),
    *(
        "/api/progress",
        "/api/suspects",
        "/api/disputed",
        "/api/decisions",
        "/answers.csv",
        "/report",
    ),
]
POSTS = ["/api/answer", "/api/undo"]


@pytest.fixture
def stranger(client):
    client.cookies.clear()
    return client


@pytest.mark.parametrize("path", GETS)
def test_nothing_is_shown_without_the_token(stranger, path):
    for address in (path, f"{path}?token=guessed", f"{path}?token="):
        assert stranger.get(address).status_code == 403
    stranger.cookies.set(stranger.access.cookie, "guessed")
    assert stranger.get(path).status_code == 403


def test_the_token_opens_the_page_only_and_leaves_the_address(stranger):
    token = stranger.access.token
    assert stranger.get(f"/api/start?token={token}").status_code == 403
    found = stranger.get(f"/?token={token}", follow_redirects=False)
    assert (found.status_code, found.headers["location"]) == (303, "/")
    cookie = found.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert stranger.get("/api/start").status_code == 200


def test_the_token_is_compared_in_constant_time(monkeypatch):
    seen, real = [], hmac.compare_digest

    def compare(one, other):
        seen.append((one, other))
        return real(one, other)

    monkeypatch.setattr(server.hmac, "compare_digest", compare)
    found = Access("127.0.0.1", 1)
    assert found.allows_token(found.token)
    assert not found.allows_token("ä" * 40)
    assert len(seen) == 2
    assert len(found.token) >= 43
    assert found.token != Access("127.0.0.1", 1).token


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "", "127.0.0.1.x:8765"],
)
def test_another_name_of_this_machine_is_refused(client, host):
    """Against DNS rebinding: the page of a stranger has the stranger's name."""
    assert client.get("/api/start", headers={"host": host}).status_code == 421


def test_hosts_are_those_that_the_server_was_started_for():
    own, any_ = Access("192.168.1.5", 80), Access("0.0.0.0", 80)  # noqa: S104 - nothing is bound
    assert own.allows_host("192.168.1.5:80")
    assert own.allows_host("localhost:80")
    assert not own.allows_host("192.168.1.6:80")
    assert any_.allows_host("192.168.1.6:80")
    assert any_.allows_host("[::1]:80")
    assert not any_.allows_host("evil.example:80")
    assert "127.0.0.1" in any_.address
    assert "[::1]:80/" in Access("::1", 80).address
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("192.168.1.5")
    assert not is_loopback("example.org")


@pytest.mark.parametrize("path", POSTS)
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "https://127.0.0.1:8765", ""]
)
def test_another_page_cannot_answer(client, path, origin):
    found = client.submit(path, origin=origin, queue="check", answers=[])
    assert found.status_code == 403
    assert client.post(path, json={}).status_code == 403


@pytest.mark.parametrize("path", POSTS)
def test_a_form_cannot_answer(client, path):
    headers = {"origin": f"http://{HOST}", "content-type": "text/plain"}
    assert client.post(path, content="{}", headers=headers).status_code == 415


@pytest.mark.parametrize("path", POSTS)
def test_nothing_is_written_by_get(client, path):
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, path).status_code == 405


@pytest.mark.parametrize("path", GETS)
def test_gets_change_nothing(client, run, path):
    before = (run / "review.sqlite").read_bytes(), (run / "checks.json").read_bytes()
    client.get(path, params={"reviewer": "Anna"})
    assert ((run / "review.sqlite").read_bytes(), (run / "checks.json").read_bytes()) == before
    assert client.post(path, headers={"origin": f"http://{HOST}"}, json={}).status_code == 405


@pytest.mark.parametrize("path", [*GETS[:-1], "/nowhere"])
def test_no_inline_script_no_frame_and_no_sniffing(client, path):
    headers = client.get(path, params={"reviewer": "Anna"}).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert "cache-control" in headers


def test_a_long_request_is_refused(client):
    found = client.submit("/api/answer", queue="fix", answers=[[0, "x" * (1 << 20)]])
    assert found.status_code == 413
    headers = {"origin": f"http://{HOST}", "content-type": "application/json"}
    in_chunks = client.post("/api/answer", content=iter([b"{", b"}"]), headers=headers)
    assert "content-length" not in in_chunks.request.headers
    assert in_chunks.status_code == 413
    headers |= {"content-length": "2"}
    both = client.build_request(
        "POST", "/api/answer", content=b"{}", headers={**headers, "transfer-encoding": "chunked"}
    )
    assert client.send(both).status_code == 413


def test_the_page_itself_has_no_inline_script_or_style(client):
    page = client.get("/").text
    assert "<style" not in page
    assert " style=" not in page
    assert "onclick" not in page
    assert page.count("<script") == 1
    assert 'src="/static/main.js"' in page


def test_two_reviews_in_one_browser_have_cookies_of_their_own(run, opened):
    assert Access("127.0.0.1", 1).cookie != Access("127.0.0.1", 2).cookie
    assert Client(opened(run)).get("/").status_code == 200
