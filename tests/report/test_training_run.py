"""The report of a training run, and the training in one sentence."""

import pytest

from kspr.errors import InputError
from kspr.report import TrainingRun, in_short, write_curves, write_training_report
from tests.report.samples import EPOCHS, Page, training_run


@pytest.mark.parametrize(
    ("doubtful", "measured", "words"),
    [
        (488, {"test_accuracy": 0.931}, "488 of 5,000 labels are suspects. The network is right"),
        (0, {"test_accuracy": 0.5}, "All 5,000 labels look right."),
        (5000, {"test_accuracy": 0.5}, "None of the 5,000 labels could be told from wrong ones."),
        (None, {"test_accuracy": 0.5}, "trained on 5,000 labels; none of them was judged."),
        (488, {"held_out": 0.87}, "for 87 of 100 rows it had not seen; some of those labels are"),
        (488, {}, "was not measured: that needs a test set (--test)."),
        (488, {"test_accuracy": 0.93, "items": "image"}, "right for 93 of 100 test images."),
        (488, {"held_out": 0.93, "items": "text"}, "for 93 of 100 texts it had not seen"),
    ],
)
def test_a_training_is_said_in_short(doubtful, measured, words):
    assert words in in_short(5000, doubtful, **measured)


def test_a_network_that_errs_is_never_said_to_be_right_every_time():
    assert "99 of 100" in in_short(10, 0, test_accuracy=0.9999)
    assert "100 of 100" in in_short(10, 0, test_accuracy=1.0)
    # 0.29 * 100 is 28.999999999999996.
    assert "29 of 100" in in_short(10, 0, test_accuracy=0.29)


def test_the_page_says_what_came_of_it_and_what_to_do(chosen, raised, pictures, tmp_path):
    run = training_run(tmp_path, chosen, raised, pictures)
    page = Page(write_training_report(run, tmp_path / "page.html").read_text("utf-8"))
    doubtful = int((~chosen.clean_mask).sum())
    assert f"{doubtful:,} of {len(chosen):,} labels are suspects." in page.text
    assert "The network is right for 91 of 100 test images." in page.text
    assert f"kspr predict {tmp_path} SOURCE" in page.text
    assert f"kspr report {tmp_path}/frozen --open" in page.text
    assert "efficientnet-lite0" in page.text


def test_equal_runs_give_equal_bytes_and_nothing_is_loaded(chosen, raised, pictures, tmp_path):
    run = training_run(tmp_path, chosen, raised, pictures)
    texts = [
        write_training_report(run, tmp_path / f"{k}.html").read_text("utf-8") for k in range(2)
    ]
    assert texts[0] == texts[1]
    assert "http" not in texts[0].replace("http-equiv", "")
    assert "default-src 'none'" in texts[0]


def test_names_from_the_data_cannot_act(chosen, tmp_path):
    run = training_run(tmp_path, chosen, None, None, source="<script>alert(1)</script>")
    text = write_training_report(run, tmp_path / "page.html").read_text("utf-8")
    assert "<script>alert" not in text


def test_a_run_without_selections_or_result_has_a_page_too(tmp_path):
    run = training_run(tmp_path, None, None, None, finished=False)
    page = Page(write_training_report(run, tmp_path / "page.html").read_text("utf-8"))
    assert "This training is not finished: 3 epochs are done." in page.text
    assert "--resume" in page.text
    assert 'id="moved"' not in page.source


def test_a_run_in_its_first_epoch_has_nothing_to_show(tmp_path):
    run = training_run(tmp_path, None, None, None)
    with pytest.raises(InputError, match="has finished no epoch yet"):
        write_training_report(TrainingRun(tmp_path, run.about, []), tmp_path / "page.html")


def test_the_title_can_be_chosen(chosen, tmp_path):
    run = training_run(tmp_path, chosen, None, None)
    page = write_training_report(run, tmp_path / "page.html", "Birds").read_text("utf-8")
    assert "<h1>Birds</h1>" in page


def test_the_same_metrics_give_the_same_curves_and_gaps_stay_empty(tmp_path):
    lines = [EPOCHS[0], {"epoch": 2, "loss": "x", "kept": float("inf")}, {**EPOCHS[1], "epoch": 3}]
    first = write_curves(lines, tmp_path / "a.svg").read_bytes()
    assert first == write_curves(lines, tmp_path / "b.svg").read_bytes()
    assert b"<svg xmlns" in first
    # A single epoch is a point.
    assert b"<use" in write_curves(EPOCHS[:1], tmp_path / "c.svg").read_bytes()
