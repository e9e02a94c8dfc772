"""The summary of a selection, as text and as HTML."""

import numpy as np
import pytest

from kspr import KnockoffsSPR, Selection


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_repr_and_html_name_the_verdict(selection):
    assert "labels kept" in repr(selection)
    assert "1 assumed" in repr(selection)
    html = selection._repr_html_()
    assert html.count("<tr>") == 11
    assert "digit 7" in html


def test_html_escapes_labels(blobs):
    names = np.array(["<b>", "&", "c"])[blobs.y]
    html = KnockoffsSPR(q=0.1).fit(blobs.X, names).selection_._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


def test_one_cut_group_is_one_and_several_are_several(blobs):
    model = KnockoffsSPR(q=0.2, cut="pooled").fit(blobs.X, blobs.y)
    assert repr(model.selection_).endswith("3 classes in 1 cut group: 1 assumed")
    model.set_params(cut="per_class").fit(blobs.X, blobs.y)
    assert "3 classes in 3 cut groups: " in repr(model.selection_)


def test_counts_of_the_classes_add_up_to_those_of_the_head(selection):
    summary = selection.summary()
    assert sum(row.n for row in summary.per_class) == summary.n
    assert sum(row.n_kept for row in summary.per_class) == summary.n_kept
    for row in summary.per_class:
        assert sum(row.status.values()) == row.n


@pytest.fixture(scope="module")
def many() -> Selection:
    """Sixty classes: the first ones have most suspects."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(60), np.where(np.arange(60) < 5, 12, 6))
    return KnockoffsSPR(q=0.05).fit(rng.standard_normal((len(y), 5)), y).selection_


def test_many_classes_are_printed_as_the_ten_with_most_suspects(many):
    summary = many.summary()
    assert len(summary.per_class) == 60
    suspects = [row.n - row.n_kept for row in summary.per_class]
    shown = [row.n - row.n_kept for row in summary.most_suspect]
    assert shown == sorted(suspects, reverse=True)[:10]
    text = str(summary)
    assert len(text.splitlines()) < 30
    assert "Shown are the 10 of 60 classes with most suspects. All of them:" in text
    html = summary.to_html()
    assert html.count("<tr>") == 11
    assert "10 of 60 classes" in html


def test_a_few_classes_are_all_printed_in_their_order(selection):
    assert selection.summary().most_suspect == selection.summary().per_class
    assert "Shown are" not in str(selection.summary())


def test_a_label_is_one_short_line(blobs):
    names = np.array(["a\nb\x1b[1m", "x" * 400, ""])[blobs.y]
    summary = KnockoffsSPR(q=0.1).fit(blobs.X, names).selection_.summary()
    lines = str(summary).splitlines()
    assert lines[4].startswith("(empty)")
    assert lines[5].startswith("a b\\u001b[1m")
    assert max(map(len, lines[3:7])) < 110


def test_a_session_shows_the_table(digits40):
    summary = KnockoffsSPR().fit(digits40.X, digits40.y).selection_.summary()
    assert repr(summary) == str(summary)
