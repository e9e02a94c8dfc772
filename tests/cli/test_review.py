"""`kspr review`: what it refuses, and what it hands on."""

import sys

import pytest

from kspr.review import server
from tests.cli.commands import fails, run


def test_options_become_settings(made, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(server, "serve", lambda *given: seen.append(given))
    options = ["--checks", "7", "--q", "0.1", "--guarantee", "anytime", "--reviewer", "Anna"]
    run("review", made, *options, "--blind", "--port", "0", "--no-browser")
    ((folder, settings, place, _),) = seen
    assert folder == made
    assert (settings.checks, settings.q, settings.guarantee) == (7, 0.1, "anytime")
    assert (settings.reviewer, settings.blind) == ("Anna", True)
    assert (place.host, place.port, place.browser) == ("127.0.0.1", 0, False)


def test_ctrl_c_is_the_usual_end(made, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "serve", interrupted)
    assert f"The answers are in {made}" in run("review", made, capsys=capsys)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--reviewer", "x" * 99], "A reviewer's name has 1 to 60 characters"),
        (["--q", "1.5"], "q must lie in (0, 1), got 1.5"),
        (["--seed", "-1"], "--seed"),
        (["--checks", "-3"], "--checks"),
        (["--guidelines", "nowhere.md"], "nowhere.md"),
        (["--host", "nowhere.invalid"], "cannot be used"),
    ],
)
def test_bad_options_are_one_sentence(made, capsys, options, words):
    said = fails("review", made, "--no-browser", "--port", "0", *options, capsys=capsys)
    assert words in said


def test_what_is_no_run_is_one_sentence(tmp_path, capsys):
    assert "is not a run of kspr" in fails("review", tmp_path, "--port", "0", capsys=capsys)


def test_a_missing_extra_is_named(made, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    assert "review" in fails("review", made, capsys=capsys)
