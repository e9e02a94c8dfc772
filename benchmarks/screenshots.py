"""Photograph the report and the review page in a browser: `make screenshots`.

Both show 1,797 handwritten digits of which 15 % are mislabelled. The pictures, light and dark, are
docs/figures/report-*.webp and review-*.webp. Needs Debian's chromium.
"""

import io
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from sklearn.datasets import load_digits

from _common import DOCS, arguments, either
from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.runs.select import select_source
from kspr.sources.options import AS_SHIPPED, ReadOptions
from review import CHROMIUM, serving

FIGURES = DOCS / "figures"
NAMES = ("report-light.webp", "report-dark.webp", "review-light.webp", "review-dark.webp")
CHECKS = either(40, 3)
"""Rows that are checked before the review page is photographed."""
SIZE = {"width": 1200, "height": 860}


def make_run(folder: Path) -> tuple[Path, np.ndarray, np.ndarray]:
    """Write the digits as images with labels, and select.

    Return the run, the true labels, and which rows have a wrong label and the right suggestion.
    """
    digits = load_digits()
    y = symmetric(digits.target, 0.15, seed=0)
    columns = {
        "image": [_png(pixels) for pixels in digits.images],
        "label": y,
        **{f"pixel_{k}": column.astype(np.float32) for k, column in enumerate(digits.data.T)},
    }
    source = folder / "handwritten digits.parquet"
    pq.write_table(pa.table(columns), source)
    run = select_source(
        source,
        folder / "run",
        KnockoffsSPR(q=0.05),
        options=ReadOptions(features="pixel_*"),
        settings=AS_SHIPPED,
        command=("kspr", "select"),
    )
    found = (y != digits.target) & (run.selection.suggested_label == digits.target)
    return run.folder, digits.target, found


def _png(pixels: np.ndarray) -> bytes:
    stream = io.BytesIO()
    # With a margin: the digits touch the edges.
    image = Image.fromarray((255 - 15.9 * np.pad(pixels, 2)).astype(np.uint8))
    image.resize((192, 192), Image.Resampling.BICUBIC).save(stream, "PNG")
    return stream.getvalue()


def check_rows(page: Page, true: np.ndarray, found: np.ndarray) -> None:
    """Answer rows by the truth, and stop at one of the `found` wrong labels."""
    asked = 0
    while True:
        shown = page.wait_for_selector("#stage img").get_attribute("src")
        row = int(re.search(r"/image/(\d+)", shown)[1])
        if asked >= CHECKS and found[row]:
            return
        before = page.inner_text("#check-title")
        page.keyboard.press(str(true[row]))
        page.wait_for_function(
            "before => document.getElementById('check-title').textContent !== before", arg=before
        )
        asked += 1


def photograph(page: Page, name: str, scheme: str) -> None:
    """Save what the window shows, in the colours of a scheme."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.wait_for_timeout(500)
    image = Image.open(io.BytesIO(page.screenshot()))
    image.save(FIGURES / f"{name}-{scheme}.webp", quality=85, method=6)


def photograph_all(browser: Browser, folder: Path) -> None:
    """Make a run, and photograph its report and its review."""
    run, true, found = make_run(folder)
    page = browser.new_context(viewport=SIZE, device_scale_factor=1.5).new_page()
    # From its folder: the page repeats the path that it is given.
    subprocess.run([sys.executable, "-m", "kspr", "report", run.name], cwd=folder, check=True)
    page.goto((run / "report.html").as_uri())
    for scheme in ("light", "dark"):
        photograph(page, "report", scheme)
    with serving(run, "--reviewer", "Anna") as (_, address):
        page.goto(address)
        check_rows(page, true, found)
        for scheme in ("light", "dark"):
            photograph(page, "review", scheme)


def main() -> None:
    arguments(__doc__).parse_args()
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        photograph_all(browser, Path(folder))
        browser.close()
    print("wrote", *(FIGURES / name for name in NAMES))


if __name__ == "__main__":
    main()
