"""What to do next: commands that can be copied and run."""

import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR, Selection
from kspr.cli._app import app
from kspr.noise import pair_flip
from kspr.report._page import next_steps
from kspr.selectors.verdict import probably_wrong
from tests.report.samples import Page

MADE = "kspr select 'my data.npz' --label species --q 0.05 --overwrite --out 'a run'"


def commands(selection, run=Path("a run"), kind=None):
    """Return the last command of each step."""
    return {step.title: step.commands[-1] for step in next_steps(selection, run, kind)}


def test_check_fix_and_export_come_in_this_order(chosen):
    steps = ["Check 100 rows", "Fix the suspects", "Export what is kept"]
    assert list(commands(chosen.at(0.01))) == steps
    # At a larger error rate some labels that are probably wrong are kept.
    assert list(commands(chosen)) == [steps[0], "Leave out what is probably wrong", *steps[1:]]


def test_the_error_rate_that_leaves_out_what_is_probably_wrong_is_named(chosen):
    command = commands(chosen)["Leave out what is probably wrong"]
    strict = chosen.at(float(shlex.split(command)[4]))
    assert not (probably_wrong(strict) & strict.clean_mask).any()
    assert strict.clean_mask.sum() > 0.9 * (~probably_wrong(chosen)).sum()


def test_the_commands_name_the_run_as_a_shell_needs_it(chosen):
    found = commands(chosen)
    assert found["Check 100 rows"] == "kspr verify 'a run' --checks 100"
    assert found["Fix the suspects"] == (
        "kspr export 'a run' --suspects relabel --out fixed.parquet"
    )
    assert found["Export what is kept"] == "kspr export 'a run' --out clean.parquet"
    images = commands(chosen, kind="image")
    assert images["Fix the suspects"].endswith("--to imagefolder --out fixed")
    assert images["Export what is kept"].endswith("--to imagefolder --out clean")


@pytest.mark.parametrize("kind", [None, "image"])
def test_the_command_line_accepts_them(chosen, kind):
    steps = next_steps(chosen, Path("a run"), kind)
    for command in [command for step in steps for command in step.commands]:
        app.parse_args(shlex.split(command)[1:], exit_on_error=False, print_error=False)


def test_without_a_run_the_commands_are_python(chosen, write):
    found = commands(chosen, run=None)
    assert found["Export what is kept"] == "X[selection.clean_mask]"
    assert found["Check 100 rows"] == "selection.with_checks(rows, true_labels)"
    assert "kspr verify" not in Page.plain(write(chosen).section("next"))


def test_spr_is_led_to_an_error_rate(shares):
    found = commands(shares)["Ask for an error rate"]
    assert found == "kspr select SOURCE --q 0.05 --out 'a run-q'"


@pytest.fixture(scope="module")
def nothing() -> Selection:
    """Nothing is kept at 1 %, and something at a larger error rate."""
    X, y = load_digits(return_X_y=True)
    selection = KnockoffsSPR(q=0.05).fit(X[:300], pair_flip(y, 0.3, {1: 2}, 0)[:300]).selection_
    levels = np.where(selection.q_value <= 0.5, np.maximum(selection.q_value, 0.06), np.inf)
    return replace(selection, q_value=levels).at(0.01)


def test_where_nothing_is_kept_a_larger_error_rate_comes_first(nothing):
    assert not nothing.clean_mask.any()
    assert list(commands(nothing)) == ["Try a larger error rate", "Check 100 rows"]
    again = commands(nothing)["Try a larger error rate"]
    assert again == "kspr report 'a run' --q 0.07 --open"
    step = next_steps(nothing, None, None)[0]
    assert step.commands == ("selection.at(0.07)",)
    kept = nothing.at(0.07).clean_mask.sum()
    assert f"would keep {kept:,} labels" in step.gain.replace("\u202f", " ")


def test_a_threshold_by_checked_rows_is_not_selected_again_without_them(checked):
    found = commands(checked)
    assert list(found) == ["Check more rows", "Fix the suspects", "Export what is kept"]
    assert found["Check more rows"].endswith("--checks 100 --out 'a run-more-checks.csv'")


def test_rows_are_checked_on_the_review_page_or_in_a_file(chosen, checked, write):
    step = next_steps(chosen, Path("a run"), None)[0]
    assert step.commands[0] == "kspr review 'a run'"
    assert "kspr review 'a run' copy" in Page.plain(
        write(chosen, run=Path("a run"), command=MADE).section("next")
    )
    # A page that goes on with a draw counts all of its rows.
    step = next_steps(checked, Path("r"), None, n_drawn=25)[0]
    assert step.commands[0] == "kspr review r --checks 125"


def test_checked_rows_ask_for_more_of_them(checked):
    assert next(iter(commands(checked))) == "Check more rows"
    none = np.zeros_like(checked.checked.counted)
    mask = replace(checked, checked=replace(checked.checked, counted=none))
    assert next(iter(commands(mask))) == "Check 100 rows"
