"""What to do next: commands that can be copied and run."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.cli._app import app
from kspr.report._page import next_steps
from tests.report.samples import Page

MADE = "kspr select 'my data.npz' --label species --q 0.05 --overwrite --out 'a run'"


def commands(selection, run=Path("a run"), command=MADE, kind=None):
    """Return the last command of each step."""
    return {step.title: step.commands[-1] for step in next_steps(selection, run, command, kind)}


def test_check_export_and_another_level_come_in_this_order(chosen):
    assert list(commands(chosen)) == [
        *("Check 100 rows", "Export the cleaned data", "Try another error rate")
    ]


def test_the_commands_name_the_run_as_a_shell_needs_it(chosen):
    found = commands(chosen)
    assert found["Check 100 rows"] == "kspr verify 'a run' --checks 100"
    assert found["Export the cleaned data"] == "kspr export 'a run' --out clean.parquet"
    assert commands(chosen, kind="image")["Export the cleaned data"].endswith(
        "--to imagefolder --out clean"
    )


def test_another_level_is_the_same_command_with_another_q_and_folder(chosen):
    words = shlex.split(commands(chosen)["Try another error rate"])
    assert words[:5] == ["kspr", "select", "my data.npz", "--label", "species"]
    q = words[words.index("--q") + 1]
    assert words[5:] == ["--q", q, "--out", f"a run-q{q}"]
    assert float(q) != 0.05


@pytest.mark.parametrize("kind", [None, "image"])
def test_the_command_line_accepts_them(chosen, kind):
    steps = next_steps(chosen, Path("a run"), MADE, kind)
    for command in [command for step in steps for command in step.commands]:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


def test_the_gain_of_another_level_is_what_it_would_keep(chosen):
    step = next_steps(chosen, None, None, None)[2]
    q = float(step.commands[0].removeprefix("selection.at(").removesuffix(")"))
    assert f"would keep {chosen.at(q).clean_mask.sum():,} labels" in step.gain
    assert f"now {chosen.clean_mask.sum():,} are kept" in step.gain


def test_without_a_run_the_commands_are_python(chosen, write):
    found = commands(chosen, run=None)
    assert found["Take the cleaned data"] == "X[selection.clean_mask]"
    assert "checked=(rows, true_labels)" in found["Check 100 rows"]
    assert "kspr verify" not in Page.plain(write(chosen).section("next"))


def test_a_run_that_a_training_left_is_opened_in_python(chosen):
    found = commands(chosen, command="kspr train photos --out run")
    assert found["Try another error rate"].startswith("kspr.Selection.load('a run').at(")


def test_spr_is_led_to_an_error_rate(shares):
    command = "kspr select d.npz --preset spr --clean-ratio=0.7 --out a"
    found = commands(shares, command=command)
    assert "Check 100 rows" not in found
    words = shlex.split(found["Ask for an error rate"])
    assert words == ["kspr", "select", "d.npz", "--q", "0.05", "--out", "a run-q0.05"]


def test_where_nothing_is_kept_nothing_is_exported():
    rng = np.random.default_rng(0)
    model = KnockoffsSPR(q=0.01).fit(rng.standard_normal((60, 4)), np.arange(60) % 3)
    assert not model.selection_.clean_mask.any()
    titles = list(commands(model.selection_))
    assert titles == ["Try another error rate", "Check 100 rows"]


def test_a_cut_by_checked_rows_is_not_selected_again_without_them(checked):
    found = commands(checked)
    assert list(found) == ["Check more rows", "Export the cleaned data"]
    assert found["Check more rows"].endswith("--checks 100 --out 'a run-more-checks.csv'")
    assert "Try another error rate" in commands(checked, run=None)


def test_rows_are_checked_on_the_review_page_or_in_a_file(chosen, checked, write):
    step = next_steps(chosen, Path("a run"), MADE, None)[0]
    assert step.commands[0] == "kspr review 'a run'"
    assert "kspr review 'a run' copy" in Page.plain(
        write(chosen, run=Path("a run"), command=MADE).section("next")
    )
    # A page that goes on with a draw counts all of its rows.
    step = next_steps(checked, Path("r"), MADE, None, n_drawn=25)[0]
    assert step.commands[0] == "kspr review r --checks 125"


def test_checked_rows_ask_for_more_of_them(checked):
    assert next(iter(commands(checked))) == "Check more rows"
    none = np.zeros_like(checked.checked.counted)
    mask = replace(checked, checked=replace(checked.checked, counted=none))
    assert next(iter(commands(mask))) == "Check 100 rows"
