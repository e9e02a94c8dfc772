"""Selections that the tests of the report share."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspr import SPR, KnockoffsSPR, Selection
from kspr.noise import pair_flip
from kspr.selectors import PaperKnockoffsSPR
from tests.report.samples import Page, Pictures

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chosen(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


@pytest.fixture(scope="session")
def exchangeable(digits40) -> Selection:
    return KnockoffsSPR(q=0.2, control="exchangeable").fit(digits40.X, digits40.y).selection_


@pytest.fixture(scope="session")
def unsplit_paper(digits40) -> Selection:
    selector = PaperKnockoffsSPR(0.1, level="fixed", classes_per_group=None, samples_per_class=None)
    return selector.fit(digits40.X, digits40.y).selection_


@pytest.fixture(scope="session")
def checked(digits40) -> Selection:
    """The level is one that the checked rows, a few, are enough for."""
    rows = np.random.default_rng(0).choice(len(digits40.y), 25, replace=False)
    checked = (rows, digits40.y_true[rows])
    return KnockoffsSPR(q=0.4).fit(digits40.X, digits40.y, checked=checked).selection_


@pytest.fixture(scope="session")
def flipped(digits40) -> Selection:
    y = pair_flip(digits40.y_true, 0.2, {2: 7}, seed=0)
    return KnockoffsSPR(q=0.05).fit(digits40.X, y).selection_


@pytest.fixture(scope="session")
def raised(digits40) -> Selection:
    return PaperKnockoffsSPR().fit(digits40.X, digits40.y).selection_


@pytest.fixture(scope="session")
def shares(blobs) -> Selection:
    return SPR(0.7).fit(blobs.X, blobs.y).selection_


@pytest.fixture(scope="session")
def pictures(digits40) -> Pictures:
    return Pictures((digits40.X * 15).astype(np.uint8).reshape(-1, 8, 8))


@pytest.fixture
def write(tmp_path):
    """Write a report and return it as a `Page`."""
    from kspr.report import Shown, write_report

    def _write(selection: Selection, **options: Any) -> Page:
        shown = Shown(**{"title": "T", **options})
        path = write_report(selection, tmp_path / "report.html", shown)
        return Page(path.read_text(encoding="utf-8"))

    return _write


@pytest.fixture(scope="module")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not installed")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield running
        running.close()
