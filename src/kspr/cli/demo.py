"""`kspr demo`: a selection among handwritten digits, printed."""

import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from kspr._packages import is_installed
from kspr._text import text_table, visible
from kspr.cli import _common as common
from kspr.cli.review import review as check_labels
from kspr.errors import MissingExtraError

if TYPE_CHECKING:
    import numpy as np

    from kspr.experiments.demo import DemoResult

_SHADES = " ░▒▓█"
_ABREAST = 4  # fits a terminal of 80 columns
_FIRST = 100
"""Suspects of which the wrong labels are counted."""


def demo(
    *,
    out: Annotated[Path, Parameter(help="Directory for the data, the run and a picture.")] = Path(
        "kspr-demo"
    ),
    q: Annotated[float, Parameter(help="Error rate to ask for: 0.05 for 5 %.")] = common.DEFAULT_Q,
    seed: Annotated[int, Parameter(help="Seed of the noise and of the selection.")] = 0,
    review: Annotated[
        bool, Parameter(help="Then check labels yourself, on a page in your browser.", negative="")
    ] = False,
) -> None:
    """Find wrong labels among 1,797 handwritten digits, 40 % of them mislabelled at random.

    Example: kspr demo --q 0.1 --out /tmp/demo
    """
    from kspr.experiments.demo import run_demo

    # After the import of scikit-learn, which is no part of a selection.
    start = time.perf_counter()
    result = run_demo(out, q, seed)
    _print(result, q, time.perf_counter() - start)
    if review:
        check_labels(result.run)
    else:
        print("Check labels yourself, in your browser:")
        if not all(map(is_installed, ("starlette", "uvicorn", "jinja2"))):
            # The index does not have this package yet: the sentence names a command that works.
            print(MissingExtraError("  The review page", "'knockoffs-spr[review]'"))
        print(f"  {_called()} review {visible(shlex.quote(str(result.run)))}")


def _called() -> str:
    """Return how kspr is called from where the user is: its name may not be on the PATH."""
    if shutil.which("kspr"):
        return "kspr"
    if Path(sys.argv[0]).name == "kspr":
        return shlex.quote(sys.argv[0])
    return f"{shlex.quote(sys.executable)} -m kspr"


def _print(result: "DemoResult", q: float, seconds: float) -> None:
    console = Console()
    selection, quality = result.selection, result.quality
    wrong = float((selection.label != result.y_true).mean())
    console.print(
        f"[bold]1,797 handwritten digits, {wrong:.0%} of the labels wrong.[/bold] "
        f"Selected in {seconds:.1f} s:\n"
    )
    head = ["digit", "labels", "kept", "wrong among them", "right ones kept"]
    classes = zip(selection.summary().per_class, result.class_quality, strict=True)
    rows = [
        [str(row.label), str(row.n), str(row.n_kept), f"{found.fsr:.1%}", f"{found.recall:.0%}"]
        for row, found in classes
    ]
    # Rich colours every number otherwise.
    console.print(text_table(head, rows, left=0), highlight=False)
    console.print(
        f"\nKept {selection.clean_mask.sum():,} labels. Asked for {q:.1%} wrong ones among them, "
        f"got [bold]{quality.fsr:.1%}[/bold]; {quality.recall:.0%} of all right labels were kept."
        f"\nOf the wrong labels among the suspects, {result.suggested_right:.0%} have the right "
        "one suggested.\n",
        highlight=False,
    )
    console.print(
        "The rate is a mean over all digits; that of one digit scatters. It rests on an assumption "
        "that holds here: labels were flipped whatever the picture looks like. On labels made by "
        "people, check about 100 rows (kspr review).\n",
        highlight=False,
    )
    first = selection.suspect_indices[:_FIRST]
    wrong_first = first[selection.label[first] != result.y_true[first]]
    console.print(
        f"Of the {_FIRST} most suspicious labels {len(wrong_first)} are wrong, such as these "
        "(given → suggested):\n",
        highlight=False,
    )
    for row in (0, _ABREAST):
        console.print(_suspects(result, wrong_first[row : row + _ABREAST]))
    console.print(
        f"\nThe run: {visible(result.run)}\nMore suspects: {visible(result.picture)}",
        highlight=False,
        markup=False,
    )


def _suspects(result: "DemoResult", rows: "np.ndarray") -> Text:
    """Return a few suspects side by side, drawn with characters."""
    selection = result.selection
    captions = [f"{selection.label[i]} → {selection.suggested_label[i]}" for i in rows]
    # 18 characters: eight pixels and a gap. A character is about twice as high as it is wide, so
    # that two of them make a square pixel.
    lines = ["".join(f"{caption:<18}" for caption in captions)]
    for y in range(8):
        # A value of 1.0 belongs to the last of the five shades, not to a sixth.
        strokes = (_SHADES[min(4, int(v * 5))] * 2 for i in rows for v in (*result.images[i, y], 0))
        lines.append("".join(strokes))
    return Text("\n".join(lines) + "\n", no_wrap=True)
