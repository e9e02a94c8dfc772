"""The command line, run as a user runs it."""

import subprocess
import sys

import pytest

import kspr
from kspr.cli import main


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "kspr", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_version_is_the_packages():
    assert run("--version").stdout.strip() == kspr.__version__


def test_demo_shows_its_findings_and_where_they_are(tmp_path):
    done = run("demo", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "right labels were" in done.stdout
    assert (tmp_path / "found" / "suspects.png").read_bytes()[:4] == b"\x89PNG"
    selection = kspr.Selection.load(tmp_path / "found" / "selection")
    assert len(selection) == 1797
    assert 0.3 < selection.clean_mask.mean() < 0.7
    assert run("demo", "--out", "found", "--q", "0.1", cwd=tmp_path).returncode == 0


def test_the_demo_holds_its_error_rate(tmp_path):
    """The seeds are fixed, and so is the answer."""
    from kspr.experiments.demo import run_demo

    result = run_demo(tmp_path, q=0.05, seed=0)
    assert result.quality.fsr <= 0.05
    assert result.quality.recall > 0.8
    assert result.suggested_right > 0.8


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--q", "1.5"], "q must lie in (0, 1), got 1.5."),
        (["demo", "--q", "much"], "Invalid value"),
        (["dmo"], 'Did you mean "demo"?'),
        (["demo", "--outt", "x"], "Did you mean --out?"),
    ],
)
def test_bad_arguments_end_in_one_sentence_and_exit_code_2(arguments, sentence, capsys, tmp_path):
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    assert stop.value.code == 2
    message = capsys.readouterr().err
    assert sentence in message
    assert message.startswith("kspr: ")
    assert message.count("\n") == 1


def test_an_unwritable_place_is_named(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as stop:
        main(["demo", "--out", str(tmp_path / "file")])
    assert stop.value.code == 2
    assert "file" in capsys.readouterr().err


def test_interrupting_exits_with_130(monkeypatch, capsys):
    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("kspr.experiments.demo.run_demo", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["demo"])
    assert stop.value.code == 130
