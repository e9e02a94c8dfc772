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
    assert "1 controlled" in repr(selection)
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
    assert repr(model.selection_).endswith("3 classes in 1 cut group: 1 controlled")
    model.set_params(cut="per_class").fit(blobs.X, blobs.y)
    assert "3 classes in 3 cut groups: " in repr(model.selection_)


def test_counts_of_the_classes_add_up_to_those_of_the_head(selection):
    summary = selection.summary()
    assert sum(row.n for row in summary.per_class) == summary.n
    assert sum(row.n_kept for row in summary.per_class) == summary.n_kept
    for row in summary.per_class:
        assert sum(row.status.values()) == row.n
