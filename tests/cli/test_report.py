"""`kspr report`, run as a user runs it."""

import numpy as np

from tests.cli.commands import run


def test_report_is_one_file(made, tmp_path):
    run("report", made, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "digit-7" in page
    assert "kspr select" in page
    run("report", made, "--truth", "truth")
    assert (made / "report.html").is_file()


def test_report_does_without_a_source_that_is_gone(digits, tmp_path):
    X, _truth, noisy = digits
    np.savez(tmp_path / "gone.npz", X=X, y=noisy)
    run("select", tmp_path / "gone.npz", "--out", tmp_path / "r")
    (tmp_path / "gone.npz").unlink()
    run("report", tmp_path / "r")
    assert "gone.npz" in (tmp_path / "r" / "report.html").read_text()
