"""`write_report`: the file, its bytes, and what it refuses."""

import sys

import numpy as np
import pytest
from PIL import Image

from kspr import InputError, MissingExtraError
from kspr.report import Shown, write_report
from tests.report.samples import Page


def test_equal_arguments_give_equal_bytes(shares, blobs, write):
    first = write(shares)
    assert first == write(shares)


def test_a_failed_report_leaves_what_was_there(shares, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(shares, path, Shown("T"))
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(shares, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"needs 'knockoffs-spr\[report\]'"):
        write_report(shares, tmp_path / "r.html", Shown("T"))


@pytest.mark.parametrize("name", ["row_id", "truth"])
def test_rows_that_do_not_match_are_refused(shares, tmp_path, name):
    with pytest.raises(InputError, match=f"{name} has 3 rows but the selection has 360"):
        write_report(shares, tmp_path / "r.html", Shown("T", **{name: np.zeros((3, 2))}))


@pytest.mark.parametrize("kind", ["pixels", "floats", "pictures", "texts"])
def test_a_selection_writes_its_own_report_with_what_a_user_holds(chosen, digits40, tmp_path, kind):
    pixels = digits40.X.reshape(-1, 8, 8)
    items = {
        "pixels": (pixels * 15).astype(np.uint8),
        "floats": pixels / 16,
        "pictures": [Image.fromarray((image * 15).astype(np.uint8)) for image in pixels],
        "texts": [f"text {k}" for k in range(len(pixels))],
    }[kind]
    path = chosen.report(tmp_path / "digits.html", items, title="Digits")
    page = Page(path.read_text(encoding="utf-8"))
    assert "<title>Digits: label report</title>" in page.source
    worst = page.cards("suspects")[0]
    if kind == "texts":
        assert f"text {chosen.suspect_indices[0]}" in worst
    else:
        assert "data:image/jpeg" in worst
