"""`kspr selfcheck`: the test of the promise, from the command line."""

import json

import pytest

from kspr import KnockoffsSPR, selfcheck
from kspr.cli._common import with_dashes
from kspr.cli.selfcheck import selfcheck as command
from tests.cli.commands import SAID, fails, run


def test_the_command_says_what_the_library_says(table, digits, capsys):
    X, _truth, noisy = digits
    expected = selfcheck(X, noisy, KnockoffsSPR(q=0.1), kinds=["pair", "hard"], repeats=1)
    said = ["--q", "0.1", "--kinds", "pair", "hard", "--repeats", "1"]
    shown = with_dashes(str(expected), command)
    assert run("selfcheck", table, *SAID, *said, capsys=capsys).strip() == shown
    answer = json.loads(run("selfcheck", table, *SAID, *said, "--json", capsys=capsys))
    assert answer == json.loads(json.dumps(expected.to_dict()))


def test_a_control_is_checked(table, capsys):
    said = ["--preset", "paper", "--control", "paper", "--repeats", "1", "--json"]
    answer = json.loads(run("selfcheck", table, *SAID, *said, capsys=capsys))
    assert answer["control"] == "paper"
    kinds = ["estimated", "symmetric", "pair", "similar", "hard"]
    assert [row["kind"] for row in answer["kinds"]] == kinds


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--share", "0.9"], "--share must be at most 0.5"),
        (["--q", "7"], "--q must lie in (0, 1)"),
        (["--kinds", "odd"], "odd"),
        (["--repeats", "0"], "--repeats must be a whole number"),
        (["--preset", "spr"], "selfcheck goes with an error rate, which the preset 'spr' does not"),
    ],
)
def test_bad_arguments_are_one_sentence(given, words, table, capsys):
    assert words in fails("selfcheck", table, *SAID, *given, capsys=capsys)


def test_a_source_without_labels_is_named(digits, tmp_path, capsys):
    import numpy as np

    np.save(tmp_path / "x.npy", digits[0])
    assert "x.npy" in fails("selfcheck", tmp_path / "x.npy", capsys=capsys)
