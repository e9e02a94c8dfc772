"""Only rows that kspr drew and a person checked, all of them, are a guarantee."""

from dataclasses import replace

import numpy as np
import pytest

from kspr import SPR, Selection
from kspr._files import read_json, write_json
from kspr.errors import InputError
from kspr.runs.gate import claim_of, lack_of
from kspr.runs.run import Run, load_run, save_run
from kspr.selectors import PaperKnockoffsSPR
from tests.runs.samples import TRUTH, check, digits_run


def edit(run: Run, **changes) -> Run:
    """Change entries of checks.json, as an editor would."""
    file = run.folder / "checks.json"
    write_json(file, {**read_json(file), **changes})
    return load_run(run.folder)


def rewritten(run: Run, selection: Selection) -> Run:
    """Save a run with another selection, with seals that hold, as a program would."""
    return save_run(run.folder, selection, run.rows, run.origin, overwrite=True)


def test_rows_that_were_drawn_and_checked_are_a_guarantee(tmp_path):
    run = digits_run(tmp_path)
    check(run)
    claim = claim_of(load_run(run.folder), 0.95)
    assert (claim.evidence, claim.bound) == ("checked", 0.05)
    assert "on average over such draws, by 100 checked rows, drawn by kspr" in claim.sentence


@pytest.mark.parametrize("guarantee", ["mean", "confidence"])
def test_a_draw_counts_only_when_all_of_it_is_answered(tmp_path, guarantee):
    run = digits_run(tmp_path)
    check(run, n=300, answered=200, guarantee=guarantee)
    claim = claim_of(load_run(run.folder), 0.95)
    assert claim.evidence is None
    assert claim.sentence.startswith("200 of 300 checks are done; they move the threshold once all")


def test_with_an_anytime_guarantee_one_may_stop(tmp_path):
    run = digits_run(tmp_path)
    check(run, n=60, answered=40, guarantee="anytime")
    claim = claim_of(load_run(run.folder), 0.95)
    assert (claim.evidence, claim.bound) == ("checked", 0.05)
    assert "with 95% confidence, by 40 checked rows" in claim.sentence


def test_a_weak_confidence_is_no_guarantee(tmp_path):
    run = digits_run(tmp_path)
    check(run, n=200, guarantee="confidence", confidence=0.5)
    run = load_run(run.folder)
    assert claim_of(run, 0.95).evidence is None
    assert "a confidence of 0.5, and 0.95 is asked for" in claim_of(run, 0.95).sentence
    assert claim_of(run, 0.5).evidence == "checked"


def test_chosen_rows_are_no_evidence(tmp_path):
    run = digits_run(tmp_path)
    check(run, drawn="all")
    run = edit(run, drawn="chosen", positions=[])
    assert claim_of(run, 0.95).evidence == "estimated"
    assert lack_of(run) == "No rows that `kspr verify` drew at random are checked."


def test_checks_about_other_data_are_no_evidence(tmp_path):
    run = digits_run(tmp_path)
    check(run)
    assert claim_of(edit(run, fingerprint="0" * 64), 0.95).evidence == "estimated"


def test_rows_that_were_picked_from_a_draw_are_refused(tmp_path):
    run = digits_run(tmp_path)
    check(run)
    positions = read_json(run.folder / "checks.json")["positions"]
    with pytest.raises(InputError, match="is not among the first 99 rows"):
        edit(run, positions=positions[1:])


def test_rows_that_somebody_calls_random_are_declared_not_checked(tmp_path):
    run = digits_run(tmp_path)
    check(run, drawn="all")
    assert claim_of(load_run(run.folder), 0.95).evidence == "checked"
    answers = {str(k): str(TRUTH[k]) for k in range(100)}
    run = edit(run, positions=list(range(100)), answers=answers)
    claim = claim_of(run, 0.95)
    assert claim.evidence == "declared"
    assert "declared to be drawn at random" in claim.sentence


def test_answers_inside_a_selection_are_no_evidence(tmp_path):
    run = digits_run(tmp_path)
    rows = run.selection.draw_checks(100)
    run = rewritten(run, run.selection.with_checks(rows, TRUTH[rows]))
    assert load_run(run.folder).selection.checked is not None
    claim = claim_of(load_run(run.folder), 0.95)
    assert (claim.evidence, claim.bound) == (None, None)
    assert lack_of(run) is not None


def test_an_estimate_says_so_with_its_assumption(tmp_path):
    claim = claim_of(digits_run(tmp_path), 0.95)
    assert claim.evidence == "estimated"
    assert claim.bound <= 0.05
    assert "by their true class" in claim.sentence
    assert "No rows are checked." in claim.sentence


@pytest.mark.parametrize("selector", [SPR(), PaperKnockoffsSPR(samples_per_class=None)])
def test_a_method_that_holds_no_rate_has_no_estimate(tmp_path, selector):
    claim = claim_of(digits_run(tmp_path, selector=selector), 0.95)
    assert (claim.evidence, claim.bound) == (None, None)
    assert "holds no error rate" in claim.sentence


def test_spr_with_checked_rows_is_as_good_as_any(tmp_path):
    run = digits_run(tmp_path, selector=SPR())
    check(run, q=0.05)
    assert claim_of(load_run(run.folder), 0.95).evidence == "checked"


def test_a_network_that_has_seen_the_labels_has_no_estimate(tmp_path):
    run = digits_run(tmp_path)
    seen = replace(run.selection.manifest, seen_labels=True)
    run = rewritten(run, replace(run.selection, manifest=seen).at(0.05))
    assert claim_of(load_run(run.folder), 0.95).evidence is None


@pytest.mark.parametrize("level", [np.nan, np.inf])
def test_kept_rows_without_a_level_leave_no_bound(tmp_path, level):
    run = digits_run(tmp_path)
    levels = run.selection.q_value.copy()
    levels[run.selection.clean_indices[0]] = level
    claim = claim_of(load_run(rewritten(run, replace(run.selection, q_value=levels)).folder), 0.95)
    assert not claim.bound <= 0.05
