"""Starting the review page: a port, an address to print, and an end that loses nothing."""

import socket
import webbrowser
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from kspr.errors import InputError
from kspr.review.access import Access, is_loopback
from kspr.review.app import make_app
from kspr.review.session import Session, Settings

__all__ = ["Place", "serve"]

_USUAL = 8765
"""Port that is taken where none is asked for and it is free."""


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
    # Before the run is opened: a port that is taken is found at once.
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
        make_app(session, access),
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
    raise AssertionError("a free port was found or refused")
