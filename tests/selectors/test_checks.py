"""Answers beside a saved selection: applied when it is loaded, refused when damaged."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, Selection
from kspr.selectors.checks import Checks, apply_checks, read_checks, write_checks


@pytest.fixture(scope="module")
def fitted(digits40):
    return KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_


def checks_of(selection, truth, n, **changes) -> Checks:
    rows = selection.draw_checks(n)
    about = {
        "drawn": "pool",
        "guarantee": "mean",
        "confidence": 0.95,
        "q": 0.1,
        "seed": 0,
        "fingerprint": selection.manifest.fingerprint,
        "positions": tuple(rows.tolist()),
        **changes,
    }
    return Checks(**about).with_answers({int(row): str(truth[row]) for row in rows})


def test_a_loaded_selection_has_the_answers_and_what_was_fitted_stays(fitted, digits40, tmp_path):
    folder = fitted.save(tmp_path / "s")
    write_checks(folder, checks_of(fitted, digits40.y_true, 80))
    rows = fitted.draw_checks(80)
    expected = fitted.with_checks(rows, digits40.y_true[rows])
    assert np.array_equal(Selection.load(folder).clean_mask, expected.clean_mask)
    assert np.array_equal(Selection.load(folder, answers=False).clean_mask, fitted.clean_mask)


def test_checks_come_back_as_they_were_written(fitted, digits40, tmp_path):
    checks = checks_of(fitted, digits40.y_true, 20, drawn="all", guarantee="anytime")
    write_checks(tmp_path, checks)
    assert read_checks(tmp_path, fitted) == checks


def test_rows_passed_over_count_as_wrong_and_rows_not_reached_do_not_count(fitted, digits40):
    checks = checks_of(fitted, digits40.y_true, 40)
    known = checks.known
    rows = fitted.draw_checks(40).tolist()
    for row in (rows[5], *rows[30:]):
        del known[row]
    part = replace(checks, answers=None).with_answers(known)
    assert part.reached == tuple(rows[:30])
    assert part.n_left_empty == 1
    answered = apply_checks(fitted, part)
    assert answered.checked.counted.sum() == 30
    assert not answered.clean_mask[rows[5]]


@pytest.mark.parametrize(
    "change",
    [
        {"positions": [10**6]},
        {"positions": ["0"]},
        {"answers": {"-1": "3"}},
        {"answers": {"0": 3}},
        {"answers": {"zero": "3"}},
        {"drawn": "somehow"},
        {"guarantee": 7},
        {"q": 2.0},
        {"confidence": None},
        {"seed": "0"},
        {"unknown": 1},
    ],
    ids=str,
)
def test_damaged_checks_are_one_sentence(fitted, digits40, tmp_path, change):
    write_checks(tmp_path, checks_of(fitted, digits40.y_true, 5))
    about = json.loads((tmp_path / "checks.json").read_text())
    (tmp_path / "checks.json").write_text(json.dumps({**about, **change}))
    with pytest.raises(InputError, match="cannot be read: it is cut short or damaged"):
        read_checks(tmp_path, fitted)


@pytest.mark.parametrize("content", ["{", "[]", "", "3"])
def test_a_file_that_is_no_object_is_one_sentence(fitted, tmp_path, content):
    (tmp_path / "checks.json").write_text(content)
    with pytest.raises(InputError, match="cannot be read: it is cut short or damaged"):
        read_checks(tmp_path, fitted)
