"""`kspr review`: a page where people check labels."""

from pathlib import Path
from typing import Literal

from kspr._packages import require
from kspr.cli import _common as common


def review(
    run: common.Made,
    /,
    *,
    checks: int | None = None,
    drawing: common.Drawing = common.AS_DRAWN,
    drawn: Literal["pool", "all"] | None = None,
    reviewer: str | None = None,
    blind: common.Switch = False,
    share: common.Switch = False,
    guidelines: Path | None = None,
    source: common.Moved = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    browser: bool = True,
) -> None:
    """Check labels on a page in your browser; each answer sharpens the error rate to rely on.

    About a hundred rows that were drawn at random are shown one by one. Press space if the given
    label is right, Enter if the suggested one is, `?` for the other keys. Answers are saved in the
    run one by one: `kspr verify`, `report` and `export` use them. Press Ctrl-C to end.

    Example: kspr review run

    Example: kspr review run --checks 200 --guarantee anytime --reviewer Anna

    Parameters
    ----------
    checks
        How many rows to draw in all; a draw that is there can be raised.
        [default: those of the draw, else 100]
    drawn
        Draw from the `pool` of rows that could be kept, as without it; or from `all` rows, which is
        best before `kspr plan`.
    reviewer
        Your name; the page asks for it otherwise. Several people may review a run at once.
    blind
        Show labels only after a first answer, which they then cannot sway.
    share
        Ask one person about each row, so that several people share the draw; else everybody goes
        through all of it.
    guidelines
        A text file that says how to label; it is shown beside the rows.
    host
        Address to listen on. Other machines can reach the page only if you name one of theirs.
    port
        Port to listen on. [default: 8765, or any that is free]
    browser
        Open the page in the browser.
    """
    for package in ("starlette", "uvicorn", "jinja2"):
        require(package, "The review page", "'knockoffs-spr[review]'")
    from kspr.review.server import Place, serve
    from kspr.review.session import Settings

    settings = Settings(
        checks,
        **vars(drawing),
        blind=blind,
        reviewer=reviewer,
        source=source,
        share=share,
        guidelines=guidelines,
        drawn=drawn,
    )
    try:
        serve(run, settings, Place(host, port, browser), lambda line: print(line, flush=True))
    except KeyboardInterrupt:
        # The usual end of a server, and no error.
        print(f"\nThe answers are in {run}. Next: kspr report {run}, or kspr export {run}")
