"""`write_report`: the file, its bytes, and what it refuses."""

import sys

import numpy as np
import pytest

from kspr import InputError, MissingExtraError
from kspr.report import write_report


def test_equal_arguments_give_equal_bytes(shares, blobs, write):
    first = write(shares, features=blobs.X)
    assert first == write(shares, features=blobs.X)


def test_a_failed_report_leaves_what_was_there(shares, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(shares, path, title="T")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(shares, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"needs 'knockoffs-spr\[report\]'"):
        write_report(shares, tmp_path / "r.html", title="T")


@pytest.mark.parametrize("name", ["row_id", "truth", "features"])
def test_rows_that_do_not_match_are_refused(shares, tmp_path, name):
    with pytest.raises(InputError, match=f"{name} has 3 rows but the selection has 360"):
        write_report(shares, tmp_path / "r.html", title="T", **{name: np.zeros((3, 2))})
