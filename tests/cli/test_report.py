"""`kspr report`, run as a user runs it."""

import numpy as np
import pytest

from tests.cli.commands import fails, run


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


@pytest.fixture
def opened(monkeypatch):
    """The addresses that a browser was asked to open."""
    addresses = []
    monkeypatch.setattr("webbrowser.open", lambda address: addresses.append(address) or True)
    return addresses


def test_open_shows_the_page_in_the_browser(made, tmp_path, opened):
    run("report", made, "--out", tmp_path / "a page.html")
    assert opened == []
    run("report", made, "--out", tmp_path / "a page.html", "--open")
    assert opened == [(tmp_path / "a page.html").as_uri()]


def test_without_a_browser_the_page_is_there_and_named(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("webbrowser.open", lambda _: False)
    message = fails("report", made, "--out", tmp_path / "p.html", "--open", capsys=capsys)
    assert f"Open {tmp_path / 'p.html'} yourself" in message
    assert (tmp_path / "p.html").is_file()


def test_the_commands_on_the_page_name_its_run(made, tmp_path):
    run("report", made, "--out", tmp_path / "p.html")
    # Each word of a command is an element, which a line does not break.
    page = (tmp_path / "p.html").read_text().replace("<span>", "").replace("</span>", "")
    assert f"kspr review {made}<" in page
    assert f"kspr verify {made} --checks 100" in page
    assert f"kspr export {made} --out clean.parquet" in page


def test_a_budget_below_nothing_is_refused(made, tmp_path, capsys):
    message = fails("report", made, "--megabytes", "-1", capsys=capsys)
    assert "--megabytes must be a number from 0 up, got -1.0." in message
