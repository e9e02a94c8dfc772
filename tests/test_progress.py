"""A progress bar: shown when asked for, silent for short work."""

import pytest

from kspr import _progress
from kspr._progress import Progress


def steps(mode, n=3):
    with Progress(mode, "working", n) as progress:
        for _ in range(n):
            progress.advance()


def test_a_bar_that_is_asked_for_names_the_work(capsys):
    steps(True)
    assert "working" in capsys.readouterr().err


@pytest.mark.parametrize("mode", [False, "auto"])
def test_nothing_is_printed_where_nobody_looks(mode, capsys):
    steps(mode)
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "")


@pytest.mark.parametrize(("patience", "shown"), [(0.0, True), (60.0, False)])
def test_on_a_terminal_the_bar_waits_until_work_takes_long(monkeypatch, capsys, patience, shown):
    monkeypatch.setattr(_progress, "_PATIENCE", patience)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    steps("auto")
    assert ("working" in capsys.readouterr().err) is shown


def test_the_bar_ends_with_the_work_even_if_it_fails(capsys):
    progress = Progress(True, "working", 2)

    def fail():
        with progress:
            progress.advance()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not progress._bar.live.is_started
