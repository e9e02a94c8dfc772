"""The command line as a whole: help, options from a file, and how errors end."""

import inspect
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import kspr
from kspr import Selection
from kspr._files import staged
from kspr.cli import _app, main
from kspr.cli._app import COMMANDS, app
from kspr.cli.select import select
from kspr.selectors import options
from kspr.selectors.options import DEFAULT_Q
from tests.cli.commands import SAID, fails, run

NAMES = [command.__name__ for command in COMMANDS]


def test_version_is_the_packages():
    command = [sys.executable, "-m", "kspr", "--version"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == kspr.__version__


def test_the_module_is_the_command(capsys):
    done = subprocess.run(
        [sys.executable, "-m", "kspr", "demo", "--q", "7"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("kspr: --q must lie in (0, 1), got 7.0.")


def test_the_help_lists_all_commands_in_the_order_of_the_work(capsys):
    text = run("--help", capsys=capsys)
    listed = re.findall(r"^│ (\w+) ", text, flags=re.MULTILINE)
    assert listed == NAMES
    assert set(NAMES) == {name for name in app if not name.startswith("-")}


def examples_of(command):
    return re.findall(r"^ {4}(Example: .*)$", command.__doc__, flags=re.MULTILINE)


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_every_command_has_examples_each_on_its_own_line(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    # The width is read once, when the first help of a process is printed.
    for each in (app, app.meta):
        monkeypatch.setattr(each, "_fallback_console", None)
    lines = [line.strip() for line in run(command.__name__, "--help", capsys=capsys).splitlines()]
    examples = examples_of(command)
    assert f"Example: kspr {command.__name__}" in " ".join(examples)
    assert set(examples) <= set(lines)


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_a_docstring_describes_parameters_of_its_command_only(command):
    described = set(re.findall(r"^ {4}(\w+)\n {8}\S", command.__doc__, flags=re.MULTILINE))
    own = set(inspect.signature(command).parameters)
    assert described <= own
    # These come with a help text of their own.
    assert own - described <= {
        *("chosen", "options", "settings", "embed", "drawing", "run", "source", "json", "out", "q"),
        *("review", "seed"),
    }


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["demo", "--q", "1.5"], "kspr: --q must lie in (0, 1), got 1.5."),
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


def test_options_come_from_a_file_and_a_flag_wins(table, tmp_path):
    config = tmp_path / "kspr.toml"
    config.write_text('[select]\nq = 0.2\nseed = 7\nlabel = "species"\nfeatures = "emb_*"\n')
    run("select", table, "--config", config, "--out", tmp_path / "a")
    run("select", table, "--config", config, "--q", "0.1", "--out", tmp_path / "b")
    first, second = (Selection.load(tmp_path / name).manifest.parameters for name in "ab")
    assert (first["q"], first["random_state"]) == (0.2, 7)
    assert (second["q"], second["random_state"]) == (0.1, 7)


def write(path: Path, content) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_config_file_that_is_missing_or_wrong_is_named(table, tmp_path, capsys):
    arguments = ["select", table, *SAID, "--out", tmp_path / "r"]
    missing = tmp_path / "no.toml"
    assert "no.toml" in fails(*arguments, "--config", missing, capsys=capsys)
    wrong = write(tmp_path / "k.toml", "[select]\nqq = 3\n")
    assert "qq" in fails(*arguments, "--config", wrong, capsys=capsys)
    broken = write(tmp_path / "b.toml", "[select\n")
    fails(*arguments, "--config", broken, capsys=capsys)


@pytest.mark.parametrize("arguments", [["datasets"], ["--help"]])
def test_a_reader_that_leaves_early_is_no_error(arguments):
    """As in ``kspr datasets | head -1``: the reader closes the pipe before anything is written."""
    code = "import sys, time; time.sleep(1); from kspr.cli import main; main(sys.argv[1:])"
    child = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.close()
    complaint = child.stderr.read().decode()
    child.stderr.close()
    assert (child.wait(), complaint) == (0, "")


def test_work_goes_on_when_nobody_reads_any_more(tmp_path):
    """What is printed after the pipe was closed is dropped; the command still does its work."""
    page = tmp_path / "demo"
    code = "import sys; from kspr.cli import main; main(sys.argv[1:])"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "demo", "--out", str(page)], stdout=subprocess.PIPE
    )
    child.stdout.close()
    assert child.wait() == 0
    assert page.exists()


WITHOUT_TORCH = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from kspr.cli import main
for command in (
    ["train", "d.npz", "--out", "run"],
    ["predict", "run", "d.npz"],
    ["reproduce", "table1", "--out", "out"],
    ["embed", "photos", "--out", "features"],
    ["select", "photos", "--out", "selected"],
):
    try:
        main(command)
    except SystemExit as stop:
        print(stop.code, file=sys.stderr)
main(["reproduce", "--list"])
"""


def test_without_torch_every_command_that_needs_it_is_one_sentence(tmp_path):
    for k in range(4):
        (tmp_path / "photos" / f"class{k % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "photos" / f"class{k % 2}" / f"{k}.png")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")},
    )
    lines = done.stderr.splitlines()
    assert lines[1::2] == ["2"] * 5
    assert all(line.startswith("kspr: ") and "run `pip install " in line for line in lines[::2])
    assert "needs torch" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "cache") == ["photos"]


@pytest.mark.parametrize("name", [".", "nothing.toml"])
def test_a_config_that_is_no_file_is_one_sentence(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    message = fails("--config", name, "select", "d.npz", "--out", "run", capsys=capsys)
    assert f"{name} cannot be read as a TOML file" in message


@pytest.mark.parametrize("seed", ["-1", "1" + 40 * "0"])
@pytest.mark.parametrize(
    "command",
    [
        ("select", "d.npz", "--out", "run"),
        ("noise", "d.npz", "--kind", "symmetric", "--rate", "0.4", "--out", "n.csv"),
        ("demo", "--out", "run"),
        ("compare", "d.npz", "--methods", "kspr"),
        ("train", "d.npz", "--out", "run"),
        ("selfcheck", "d.npz"),
    ],
)
def test_a_seed_that_cannot_be_used_is_one_sentence(command, seed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    np.savez("d.npz", X=rng.standard_normal((40, 3)) + y[:, None], y=y, truth=y)
    message = fails(*command, "--seed", seed, capsys=capsys)
    assert f"must be a whole number from 0 to 4294967295, got {seed}" in message
    assert [path.name for path in tmp_path.iterdir()] == ["d.npz"]


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_help_speaks_of_flags_and_every_flag_is_explained(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    for each in (app, app.meta):
        monkeypatch.setattr(each, "_fallback_console", None)
    text = run(command.__name__, "--help", capsys=capsys)
    assert "--empty-" not in text
    assert "None for" not in text
    assert "[default: ()]" not in text
    assert "at most 5" not in text
    # A flag, its type and nothing but its default: the sentence is missing.
    assert not re.findall(r"^│[ *]+--[\w-]+(?: --[\w-]+)* +[A-Z]* *(?:\[|│)", text, re.MULTILINE)


def test_one_rate_is_the_default_of_every_command():
    found = {
        command.__name__: inspect.signature(command).parameters["q"].default
        for command in COMMANDS
        if "q" in inspect.signature(command).parameters
    }
    # A training run takes the level of its preset, what is done with a run that of the run.
    of_the_run = ("train", "export", "report")
    assert {found.pop(name) for name in of_the_run} == {None}
    assert set(found.values()) == {DEFAULT_Q}
    assert f"[default: {DEFAULT_Q}]" in Path(options.__file__).read_text(encoding="utf-8")


def test_file_names_cannot_act_on_the_terminal(capsys, tmp_path):
    message = fails("report", tmp_path / "a\x1b[31m\nkspr: all is well", capsys=capsys)
    assert "\x1b" not in message


COMPLETED = """
source "$1"
complete_with() {
  COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
  _kspr; echo "${COMPREPLY[@]}"
}
complete_with kspr sel
complete_with kspr report --op
"""


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_set_up_for_each_shell(shell, tmp_path, capsys):
    script = tmp_path / "completion"
    run("--install-completion", "--shell", shell, "--output", script, capsys=capsys)
    text = script.read_text()
    for command in NAMES:
        assert command in text
    if shell == "bash":
        done = subprocess.run(
            ["/bin/bash", "-c", COMPLETED, "bash", script], capture_output=True, text=True
        )
        assert done.stdout.split("\n")[:2] == ["select selfcheck", "--open"]


def test_sigterm_ends_a_command_like_ctrl_c(tmp_path, monkeypatch, capsys):
    """What was begun is removed, one sentence is printed, and the caller's handler comes back."""

    def stopped(*_):
        with staged(tmp_path / "half.txt") as staging:
            staging.write_text("half")
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("kspr.experiments.demo.run_demo", stopped)
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        assert fails("demo", "--out", tmp_path, capsys=capsys, code=130) == "kspr: interrupted\n"
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_a_command_says_within_a_second_what_it_does(monkeypatch, capsys):
    monkeypatch.setattr(_app, "_SOON", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with _app._task_said(select):
        time.sleep(0.2)
    said = capsys.readouterr().err
    assert said == (
        "kspr select: Find the rows whose labels can be trusted, and rank the others.\n"
    )
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    with _app._task_said(select):
        time.sleep(0.05)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("given", "missing"),
    [(["select", "x.csv"], "--out"), (["plan", "run"], "--max-wrong"), (["report"], "RUN")],
)
def test_what_is_missing_is_named_with_an_example(given, missing, capsys):
    with pytest.raises(SystemExit) as stop:
        main(given)
    assert stop.value.code == 2
    sentence = capsys.readouterr().err
    assert sentence.startswith(f"kspr: {given[0]} needs {missing}. Example: kspr {given[0]} ")
