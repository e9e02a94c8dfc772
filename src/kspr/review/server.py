"""The server of the review page: a port, an address to print, and who may talk to it.

Only whoever has the printed address may, and from this page only: every request must name a host
that the server was started for, which other names that lead to this machine are not. It needs the
token, as a cookie that the printed address has set. A request that writes must come from the page
itself.
"""

import hmac
import ipaddress
import platform
import secrets
import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kspr.errors import InputError
from kspr.review.app import make_app
from kspr.review.session import Session, Settings

_USUAL = 8765
"""Port that is taken where none is asked for and it is free."""
_LONGEST_BODY = 1 << 20
"""Bytes of a request."""
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "media-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    address = _address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


@dataclass(frozen=True)
class Access:
    """Where the server listens, and the secret that lets people in."""

    host: str
    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    @property
    def address(self) -> str:
        """The address to print, with the token."""
        # A browser on this machine cannot open 0.0.0.0.
        host = "127.0.0.1" if self._is_any else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """Name of the cookie; ports share cookies, and several reviews may run."""
        return f"kspr-review-{self.port}"

    @property
    def _is_any(self) -> bool:
        return self.host in ("0.0.0.0", "::")  # noqa: S104 - compared, not bound

    def allows_host(self, given: str) -> bool:
        """Return whether a Host header names this server.

        A page of a stranger can give its own name the address of this machine, but then its
        requests carry that name.
        """
        host, _, port = given.rpartition(":")
        host = host.strip("[]").lower()
        if port != str(self.port):
            return False
        if is_loopback(host) or host == self.host.lower():
            return True
        is_here = _address_of(host) is not None or host == platform.node().lower()
        return self._is_any and is_here

    def allows_token(self, given: str) -> bool:
        """Return whether this is the token, in a time that does not depend on what is wrong."""
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())


class Guarded:
    """An application behind the rules of `Access`."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refused(scope)
        await (refused or self._app)(scope, receive, _with_headers(send))

    def _refused(self, scope: Scope) -> Response | None:
        request, access = Request(scope), self._access
        host = request.headers.get("host", "")
        if not access.allows_host(host):
            return PlainTextResponse("This server does not have that name.", 421)
        if request.method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("This is not offered here.", 405)
        given = request.query_params.get("token", "")
        if (request.method, scope["path"]) == ("GET", "/") and access.allows_token(given):
            return self._welcome()
        if not access.allows_token(request.cookies.get(access.cookie, "")):
            return PlainTextResponse(
                "Open the address that `kspr review` printed: it holds a token, which is another "
                "one after each start.",
                403,
            )
        return _foreign(request.headers, host) if request.method == "POST" else None

    def _welcome(self) -> Response:
        # The token leaves the address, so that it is in no history and no screenshot.
        answer = RedirectResponse("/", 303)
        answer.set_cookie(
            self._access.cookie, self._access.token, httponly=True, samesite="strict", path="/"
        )
        return answer


def _foreign(headers: Headers, host: str) -> Response | None:
    """Refuse what another page sends in the user's name."""
    if headers.get("origin") != f"http://{host}":
        return PlainTextResponse("Answers are taken from the page itself only.", 403)
    if not headers.get("content-type", "").startswith("application/json"):
        return PlainTextResponse("Answers are sent as JSON.", 415)
    length = headers.get("content-length", "")
    # In chunks, a body has no length that the server would hold it to.
    sized = length.isdigit() and "transfer-encoding" not in headers
    if not sized or int(length) > _LONGEST_BODY:
        return PlainTextResponse("This is too long.", 413)
    return None


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in {**_HEADERS, "cache-control": "no-store"}.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers


@dataclass(frozen=True)
class Place:
    """Where the page is served."""

    host: str = "127.0.0.1"
    port: int | None = None
    browser: bool = True
    """Whether to open it in the user's browser."""


def serve(folder: Path, settings: Settings, place: Place, say: Callable[[str], None]) -> None:
    """Serve the review page of the run in `folder` until the user ends it.

    `say` is called with the sentences that the user must read: the address, and a warning where
    other machines can reach it.
    """
    # Before the run is opened: a port that is taken is refused at once.
    with _listen(place.host, place.port) as listening:
        session = Session(folder, settings)
        try:
            _run(session, place, listening, say)
        finally:
            session.close()


def _run(
    session: Session, place: Place, listening: socket.socket, say: Callable[[str], None]
) -> None:
    access = Access(place.host, listening.getsockname()[1])
    if not is_loopback(place.host):
        say(
            f"Warning: other machines can reach {place.host}. Whoever has the address below can "
            "see the data and answer; it is sent without encryption."
        )
    say(f"Open {access.address}")
    config = uvicorn.Config(
        Guarded(make_app(session), access),
        log_level="error",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    if place.browser:
        webbrowser.open(access.address)
    uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a socket that listens; without a `port`, on the usual one or else any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for tried in (_USUAL, 0) if port is None else (port,):
        listening = socket.socket(family, socket.SOCK_STREAM)
        # A port whose last server has just ended can be used again.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, tried))
            # Now, not when the page is ready: a browser that is early waits, and is not refused.
            listening.listen(128)
        except (OSError, OverflowError) as error:
            listening.close()
            if tried == _USUAL and port is None:
                continue
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{host}, port {tried} cannot be used: {reason.lower()}.") from error
        return listening
    raise AssertionError("a free port was bound or refused")
