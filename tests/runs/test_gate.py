"""A run passes only with the evidence that is asked for, about the data as it is now."""

from xml.etree import ElementTree

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.core.shares import clopper_pearson_interval
from kspr.errors import InputError
from kspr.runs.gate import Gate, Requirement, gate_run, write_junit
from kspr.runs.run import load_run
from tests.runs.samples import TRUTH, X, check, digits_run

ASKED = {"max_wrong": 0.05, "min_kept": 0.5}


@pytest.fixture
def checked(tmp_path):
    run = digits_run(tmp_path)
    check(run)
    return run


def failed(gate: Gate) -> list[str]:
    return [requirement.name for requirement in gate.requirements if not requirement.met]


def test_a_checked_run_passes(checked):
    found = gate_run(checked.folder, **ASKED)
    assert found.passed
    assert (found.evidence, found.bound) == ("checked", 0.05)
    assert found.n_kept == load_run(checked.folder).selection.clean_mask.sum()


@pytest.mark.parametrize(
    ("asked", "lacking"),
    [({"max_wrong": 0.049}, ["wrong labels"]), ({"min_kept": 0.99}, ["kept labels"])],
)
def test_a_run_that_misses_a_limit_fails(checked, asked, lacking):
    assert failed(gate_run(checked.folder, **{**ASKED, **asked})) == lacking


def test_a_run_that_is_not_checked_passes_only_where_an_estimate_counts(tmp_path):
    run = digits_run(tmp_path)
    found = gate_run(run.folder, **ASKED)
    assert failed(found) == ["wrong labels"]
    (sentence,) = [one.sentence for one in found.requirements if one.name == "wrong labels"]
    assert sentence.startswith("There is no evidence of the kind 'checked'.")
    assert sentence.endswith("It counts with --evidence estimated.")
    assert gate_run(run.folder, **ASKED, evidence="estimated").passed
    assert not gate_run(run.folder, **ASKED, evidence="declared").passed


def test_an_unfinished_draw_does_not_count_as_an_estimate_either(tmp_path):
    run = digits_run(tmp_path)
    check(run, answered=90)
    assert failed(gate_run(run.folder, **ASKED, evidence="estimated")) == ["wrong labels"]


def test_a_run_that_keeps_nothing_fails(tmp_path):
    run = digits_run(tmp_path, selector=KnockoffsSPR(q=1e-6, progress=False))
    found = gate_run(run.folder, max_wrong=0.99, min_kept=1e-9, evidence="estimated")
    assert (found.n_kept, failed(found)) == (0, ["kept labels"])


def test_data_that_has_changed_fails(checked, tmp_path):
    y = np.load(tmp_path / "run.npz")["y"]
    y[3] = (y[3] + 1) % 10
    np.savez(tmp_path / "run.npz", X=X, y=y)
    found = gate_run(checked.folder, **ASKED)
    assert failed(found) == ["same data"]
    assert "1 row of the run is gone from, or changed in" in found.requirements[0].sentence


def test_new_rows_fail(checked, tmp_path):
    y = np.load(tmp_path / "run.npz")["y"]
    np.savez(tmp_path / "run.npz", X=np.concatenate([X, X[:1] + 1]), y=np.append(y, 0))
    assert failed(gate_run(checked.folder, **ASKED)) == ["same data"]


def test_data_that_is_gone_is_bad_input(checked, tmp_path):
    (tmp_path / "run.npz").rename(tmp_path / "moved.npz")
    with pytest.raises(InputError, match="name its place with --source"):
        gate_run(checked.folder, **ASKED)
    assert gate_run(checked.folder, **ASKED, source=tmp_path / "moved.npz").passed


def test_images_are_compared_byte_by_byte(tmp_path, run_of, names):
    from PIL import Image

    lines = ["path,label"]
    for k, name in enumerate(names):
        Image.new("RGB", (2, 2), (k, 0, 0)).save(tmp_path / f"{k}.png")
        lines.append(f"{k}.png,{name}")
    (tmp_path / "list.csv").write_text("\n".join(lines))
    run = run_of(tmp_path / "list.csv")
    asked = {"max_wrong": 0.5, "min_kept": 0.01, "evidence": "estimated"}
    assert gate_run(run.folder, **asked).passed
    (tmp_path / "7.png").write_bytes((tmp_path / "8.png").read_bytes())
    assert failed(gate_run(run.folder, **asked)) == ["same data"]


def test_an_edited_run_is_bad_input(checked):
    samples = checked.folder / "samples.parquet"
    samples.write_bytes(samples.read_bytes()[:-1] + b"x")
    with pytest.raises(InputError, match="is not as it was written"):
        gate_run(checked.folder, **ASKED)


@pytest.mark.parametrize("wrong", [0.0, 1.0, float("nan"), -1.0])
def test_limits_are_rates(checked, wrong):
    with pytest.raises(InputError, match="--max-wrong must lie in"):
        gate_run(checked.folder, max_wrong=wrong, min_kept=0.5)
    if wrong != 1.0:
        with pytest.raises(InputError, match="--min-kept must lie in"):
            gate_run(checked.folder, max_wrong=0.05, min_kept=wrong)


def test_the_same_labels_are_no_worse_than_before(checked, tmp_path):
    old = digits_run(tmp_path, "old")
    check(old, seed=1)
    found = gate_run(checked.folder, **ASKED, against=old.folder)
    assert found.passed
    assert found.comparisons[0].label is None
    assert {one.label for one in found.comparisons[1:]} <= set(range(10))


def test_a_batch_with_more_wrong_labels_is_worse(tmp_path):
    old, new = digits_run(tmp_path, "old", rate=0.05), digits_run(tmp_path, "new", rate=0.4)
    for run in (old, new):
        check(run, drawn="all")
    found = gate_run(new.folder, max_wrong=0.05, min_kept=0.01, against=old.folder)
    assert "no worse: all classes" in failed(found)
    whole = found.comparisons[0]
    assert (whole.n, whole.n_before) == (100, 100)
    assert whole.interval == clopper_pearson_interval(whole.n_wrong, 100)
    assert gate_run(old.folder, **ASKED, against=new.folder).passed


def test_one_class_that_is_worse_fails(tmp_path):
    # Most of what is truly a 5 is called a 3.
    mistaken = (TRUTH == 5) & (np.arange(len(TRUTH)) % 4 > 0)
    old = digits_run(tmp_path, "old", y=TRUTH)
    new = digits_run(tmp_path, "new", y=np.where(mistaken, 3, TRUTH))
    for run in (old, new):
        check(run, n=400, drawn="all")
    lacking = failed(gate_run(new.folder, max_wrong=0.05, min_kept=0.01, against=old.folder))
    assert lacking == ["no worse: all classes", "no worse: class 3"]


def test_a_comparison_needs_checked_rows_on_both_sides(checked, tmp_path):
    old = digits_run(tmp_path, "old")
    found = gate_run(checked.folder, **ASKED, evidence="estimated", against=old.folder)
    assert failed(found) == ["no worse"]
    assert str(old.folder) in found.requirements[-1].sentence


def test_runs_of_different_levels_cannot_be_compared(checked, tmp_path):
    old = digits_run(tmp_path, "old")
    check(old, q=0.1)
    with pytest.raises(InputError, match=r"for q = 0\.05 and .* for q = 0\.1"):
        gate_run(checked.folder, **ASKED, against=old.folder)


def test_a_run_cannot_be_its_own_earlier_run(checked):
    with pytest.raises(InputError, match="names the run itself"):
        gate_run(checked.folder, **ASKED, against=checked.folder)


def test_the_xml_can_be_read_whatever_classes_are_called(tmp_path):
    bad = Requirement("no worse: class <\x00\ud800&\n", False, '3 of 4 "wrong" \x1b[31m')
    gate = Gate((Requirement("same data", True, "fine"), bad), None, None, 4, 1, ())
    write_junit(tmp_path / "gate.xml", gate)
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is None for case in suite] == [True, False]
    assert r"\u001b" in suite[1][0].get("message")


@pytest.mark.slow
def test_chance_fails_at_most_one_equally_good_batch_in_twenty():
    """Of 2,000 pairs of equal batches with ten classes, at most 5 % + 3 standard errors fail."""
    from kspr.runs.gate import _comparison

    rng, failures = np.random.default_rng(0), 0
    for _ in range(2_000):
        label, wrong = rng.integers(0, 10, (2, 200)), rng.random((2, 200)) < 0.1
        counts = [
            [(int(m.sum()), int((m & w).sum())) for m, w in zip(mask, wrong, strict=True)]
            for mask in [np.ones_like(wrong), *(label == k for k in range(10))]
        ]
        found = [_comparison(k, now, then, times=11) for k, (now, then) in enumerate(counts)]
        failures += any(one.p_value <= 0.05 for one in found)
    assert failures / 2_000 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 2_000)
