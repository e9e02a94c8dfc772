"""The report of a training run, from what its folder says."""

import pytest

from kspr.errors import InputError
from kspr.report.training_report import write_training_report
from kspr.report.training_run import TrainingRun
from tests.report.samples import Page, training_run


def test_the_page_says_what_came_of_it_and_what_to_do(chosen, raised, pictures, tmp_path):
    run = training_run(tmp_path, chosen, raised, pictures)
    page = Page(write_training_report(run, tmp_path / "page.html").read_text("utf-8"))
    doubtful = int((~chosen.clean_mask).sum())
    assert f"{doubtful:,} of {len(chosen):,} labels look doubtful." in page.text
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
