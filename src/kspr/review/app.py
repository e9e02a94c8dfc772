"""The addresses of the review page: the page itself, rows, images, answers."""

import io
import tempfile
from collections.abc import Callable
from functools import lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast, get_args

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from kspr._text import visible, write_csv
from kspr.errors import InputError
from kspr.review.session import ONE_BY_ONE, Filters, Session, Suspects, check_reviewer
from kspr.runs.review_log import Queue

_KEEP = {"cache-control": "private, max-age=3600"}
"""Headers of content: the rows of a run do not change while it is reviewed."""
_LARGE, _SMALL = 2048, 256
"""Longest side of an image, in pixels: alone, and beside others."""
_LONGEST_CELL = 2_000
"""Characters of a text in the file of answers."""
_TYPES = {"css": "text/css", "js": "text/javascript"}


def make_app(session: Session) -> Starlette:
    """Return the server's application, open to anybody: `Guarded` stands before it."""
    api = _Api(session)
    get = {
        "/": api.page,
        "/static/{name}": api.static,
        "/image/{position:int}": api.image,
        "/sound/{position:int}": api.sound,
        "/api/start": api.start,
        "/api/rows": api.rows,
        "/api/row/{position:int}": api.row,
        "/api/progress": api.progress,
        "/api/suspects": api.suspects,
        "/api/disputed": api.disputed,
        "/api/decisions": api.decisions,
        "/answers.csv": api.answers_csv,
        "/report": api.report,
    }
    routes = [Route(path, partial(_in_thread, use), methods=["GET"]) for path, use in get.items()]
    for name, use in {"answer": api.answer, "undo": api.undo}.items():
        routes.append(Route(f"/api/{name}", partial(_with_body, use), methods=["POST"]))
    explain: Any = {
        InputError: lambda _, error: JSONResponse({"error": str(error)}, 400),
        HTTPException: lambda _, error: PlainTextResponse(error.detail, error.status_code),
    }
    return Starlette(routes=routes, exception_handlers=explain)


async def _in_thread(use: Callable[[Request], Response], request: Request) -> Response:
    return await run_in_threadpool(use, request)


async def _with_body(use: Callable[[dict[str, Any]], Response], request: Request) -> Response:
    try:
        body = await request.json()
    except (ValueError, RecursionError, ClientDisconnect) as error:
        raise InputError("The request is no JSON.") from error
    if not isinstance(body, dict):
        raise InputError("The request is no JSON object.")
    return await run_in_threadpool(use, body)


class _Api:
    """What each address answers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._suspects = Suspects(session)
        self._row = lru_cache(maxsize=256)(session.details.row)
        self._static = {
            "look.css": (files("kspr") / "_look.css").read_bytes(),
            **{
                file.name: file.read_bytes()
                for file in (files("kspr.review") / "page").iterdir()
                if file.name.rpartition(".")[2] in _TYPES
            },
        }
        environment = Environment(
            loader=PackageLoader("kspr.review", "page"), autoescape=True, undefined=StrictUndefined
        )
        title = visible(session.run.folder.resolve().name)
        self._page = environment.get_template("page.html").render(title=title)

    def page(self, _: Request) -> Response:
        return HTMLResponse(self._page)

    def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._static:
            raise HTTPException(404, "There is no such file.")
        return Response(self._static[name], media_type=_TYPES[name.rpartition(".")[2]])

    def image(self, request: Request) -> Response:
        position = self._position(request)
        longest = _SMALL if request.query_params.get("small") else _LARGE
        try:
            content, kind = self._session.details.contents.picture(position, longest)
        except (InputError, OSError) as error:
            raise HTTPException(404, "This image cannot be shown.") from error
        return Response(content, media_type=kind, headers=_KEEP)

    def sound(self, request: Request) -> Response:
        position = self._position(request)
        try:
            content, kind = self._session.details.contents.sound(position)
        except (InputError, OSError) as error:
            raise HTTPException(404, "This sound cannot be played.") from error
        return Response(content, media_type=kind, headers=_KEEP)

    def start(self, _: Request) -> Response:
        session = self._session
        return JSONResponse(
            {
                "classes": session.shown_names,
                "reviewer": session.settings.reviewer,
                "blind": session.settings.blind,
                "has_doubt": session.fitted.doubt_is_chance,
                "guidelines": session.guidelines,
            }
        )

    def rows(self, request: Request) -> Response:
        session, reviewer = self._session, _reviewer(request)
        (ahead, left), blind = session.ahead(reviewer), session.settings.blind
        rows = [
            {**self._row(p, blind=blind and queue != "plan"), "queue": queue} for queue, p in ahead
        ]
        done = sum(len(session.answered_by(reviewer, queue)) for queue in ONE_BY_ONE)
        return JSONResponse({"rows": rows, "left": left, "done": done})

    def row(self, request: Request) -> Response:
        session, position = self._session, self._position(request)
        hidden = session.settings.blind and position in session.checks.asked
        if hidden and position not in session.answered_by(_reviewer(request)):
            raise InputError("This row is shown once you have answered it.")
        return JSONResponse(self._row(position))

    def progress(self, _: Request) -> Response:
        session = self._session
        return JSONResponse(session.progress.now(session.checks, session.plan))

    def suspects(self, request: Request) -> Response:
        asked = request.query_params
        filters = Filters(
            given=_code(asked.get("given")),
            suggested=_code(asked.get("suggested")),
            doubt=_number(asked.get("doubt")),
            text=asked.get("text", "")[:200],
            every=asked.get("every") == "1",
            answered=asked.get("answered") == "1",
        )
        start = _code(asked.get("start")) or 0
        return JSONResponse(self._suspects.page(filters, _reviewer(request), start))

    def disputed(self, request: Request) -> Response:
        session = self._session
        rows = [
            {
                **session.details.row(position),
                "answers": [
                    (f"{who}{again}", session.coded(said))
                    for again, given in (("", opinion.answers), (", asked again", opinion.repeated))
                    for who, said in given.items()
                ],
                "settled": session.coded(opinion.settled),
            }
            for position, opinion in session.disputed(_reviewer(request)).items()
        ]
        return JSONResponse({"rows": sorted(rows, key=lambda row: row["settled"] is not None)})

    def decisions(self, request: Request) -> Response:
        return JSONResponse({"rows": self._session.decided(_reviewer(request))})

    def answers_csv(self, request: Request) -> Response:
        """Return the rows that a reviewer has answered, as `kspr verify` reads them."""
        stream, run = io.StringIO(newline=""), self._session.run
        contents, lines = self._session.details.contents, []
        names = self._session.names
        for row in self._session.decided(_reviewer(request)):
            p, answers = row["position"], (row["outcome"], row["answer"])
            said = [names[answer] if isinstance(answer, int) else answer for answer in answers]
            cells = [run.row[p], run.row_id[p], self._session.fitted.label[p], *said]
            text = contents.beginning(p, _LONGEST_CELL) if contents.kind == "text" else ""
            lines.append([*cells, row["queue"], row["time"], visible(" ".join(text.split()))])
        head = ["row", "id", "label", "true_label", "own_answer", "queue", "time", "text"]
        write_csv(stream, head, lines)
        saved = {"content-disposition": 'attachment; filename="answers.csv"'}
        return Response(stream.getvalue(), media_type="text/csv; charset=utf-8", headers=saved)

    def report(self, _: Request) -> Response:
        """Return the report of the run with all answers so far; nothing is left on disk."""
        from kspr.report import report_run

        folder, source = self._session.folder, self._session.settings.source
        with tempfile.TemporaryDirectory() as scratch:
            path, _notes = report_run(folder, Path(scratch, "report.html"), source=source)
            page = path.read_bytes()
        # It brings a policy of its own, which names its scripts by their digests.
        return HTMLResponse(page, headers={"content-security-policy": "frame-ancestors 'none'"})

    def answer(self, body: dict[str, Any]) -> Response:
        given = body.get("answers")
        pairs = given if isinstance(given, list) else []
        if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], int) for p in pairs):
            raise InputError("Answers are pairs of a row and an answer.")
        again = body.get("again") is True
        self._session.answer(_name(body), _queue(body), dict(pairs), again=again)
        return JSONResponse({"saved": len(pairs)})

    def undo(self, body: dict[str, Any]) -> Response:
        return JSONResponse({"rows": self._session.undo(_name(body), _queue(body))})

    def _position(self, request: Request) -> int:
        position = int(request.path_params["position"])
        if position >= len(self._session.fitted):
            raise HTTPException(404, "There is no such row.")
        return position


def _reviewer(request: Request) -> str:
    return check_reviewer(request.query_params.get("reviewer"))


def _name(body: dict[str, Any]) -> str:
    return check_reviewer(body.get("reviewer"))


def _queue(body: dict[str, Any]) -> Queue:
    queue = body.get("queue")
    if queue not in get_args(Queue):
        raise InputError(f"The queue is one of {', '.join(get_args(Queue))}.")
    return cast("Queue", queue)


def _code(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 12 else None


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
