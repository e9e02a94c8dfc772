"""The summary of a selection, as text and as HTML."""

import re
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from kspr import KnockoffsSPR, Selection
from kspr.errors import InputError


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_repr_and_html_name_the_verdict(selection):
    assert "labels kept" in repr(selection)
    assert "One threshold for all 10 classes; not yet checked by a person" in repr(selection)
    html = selection._repr_html_()
    assert html.count("<tr>") == 11
    assert "digit 7" in html
    first = selection.summary().verdict.sentences[0]
    assert html.startswith(f"<div><p><b>{first}</b> ")


def test_a_notebook_shows_the_worst_suspects_with_their_pictures_or_texts(selection, digits40):
    worst = selection.suspect_indices[0]
    html = selection.summary(digits40.X.reshape(-1, 8, 8))._repr_html_()
    assert html.count('src="data:image/jpeg;base64,') == 12
    assert f'alt="row {worst}"' in html
    pair = f"{selection.label[worst]}</bdi> → <bdi>{selection.suggested_label[worst]}"
    assert pair in html
    texts = [f"<b>text {k}</b>" for k in range(len(selection))]
    html = selection.summary(texts)._repr_html_()
    assert f"&lt;b&gt;text {worst}&lt;/b&gt;" in html
    assert "<figure" not in selection.summary()._repr_html_()
    with pytest.raises(InputError, match=r"items has 2 .* the selection has 1,797 rows"):
        selection.summary(texts[:2])
    with pytest.raises(InputError, match=r"items\[\d+\]"):
        selection.summary(digits40.X)


def test_a_notebook_is_told_what_a_terminal_is(selection):
    """The share of wrong labels, the assumption, and the notices."""
    few = selection.at(1e-6)
    for each in (selection, few):
        summary = each.summary()
        html = unescape(re.sub("<[^>]*>", " ", summary.to_html())).replace("\u202f", " ")
        plain = " ".join(html.split())
        said = [*summary.verdict.sentences, *summary.details]
        said += [line for notice in summary.notices for line in str(notice).splitlines()]
        for line in said:
            assert " ".join(line.split()) in plain
        assert summary.noise in plain
    assert few.summary().notices


def test_the_answer_comes_first_and_no_line_is_cut(selection):
    for columns in ("60", "200"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("COLUMNS", columns)
            text = str(selection.summary())
        verdict = str(selection.summary().verdict)
        assert " ".join(text.split("\n\n")[0].split()) == verdict
        table = text.split("\n\n")[1]
        for line in text.replace(table, "").splitlines():
            assert len(line) <= min(int(columns), 100)
            assert not line.startswith("%")


def test_columns_that_say_the_same_everywhere_are_left_out(selection, blobs):
    head = str(selection.summary()).split("\n\n")[1].splitlines()[0]
    assert head.split() == ["class", "labels", "kept", "share", "probably", "wrong", "uncertain"]
    mixed = KnockoffsSPR(q=0.01, cut="per_class").fit(blobs.X, blobs.y).selection_
    levels = mixed.cut_groups.q_reached.copy()
    levels[0], status = 0.02, mixed.cut_groups.status.astype("<U8")
    status[:2] = "raised", "assumed"
    told = replace(mixed, cut_groups=replace(mixed.cut_groups, q_reached=levels, status=status))
    head = str(told.summary())
    assert "error rate" in head
    assert "status" in head


def test_relabelled_rows_are_suspects_that_another_label_fits_better(selection):
    for row in selection.summary().per_class:
        own = selection.label == row.label
        suspect = own & ~selection.clean_mask
        other = selection.suggested_label != selection.label
        assert row.relabelled == (suspect & other).sum()
        assert row.probably_wrong == (own & (selection.doubt > 0.5)).sum()
        assert row.uncertain == (suspect & (selection.doubt <= 0.5)).sum()


def test_html_escapes_labels(blobs):
    names = np.array(["<i>", "&", "c"])[blobs.y]
    html = KnockoffsSPR(q=0.1).fit(blobs.X, names).selection_._repr_html_()
    assert "<i>" not in html
    assert "&lt;i&gt;" in html


def test_one_threshold_is_one_and_several_are_several(blobs):
    model = KnockoffsSPR(q=0.2, cut="pooled").fit(blobs.X, blobs.y)
    assert "One threshold for all 3 classes; not yet" in repr(model.selection_)
    model.set_params(cut="per_class").fit(blobs.X, blobs.y)
    assert "3 thresholds for all 3 classes; " in repr(model.selection_)


def test_counts_of_the_classes_add_up_to_those_of_the_head(selection):
    summary = selection.summary()
    assert sum(row.n for row in summary.per_class) == summary.n
    assert sum(row.n_kept for row in summary.per_class) == summary.n_kept
    for row in summary.per_class:
        assert sum(row.status.values()) == row.n


def test_relabels_of_a_class_are_its_suspects_that_another_label_fits_better(selection):
    better = ~selection.clean_mask & (selection.suggested_code != selection.label_code)
    expected = np.bincount(selection.label_code[better], minlength=10).tolist()
    assert sum(expected) > 500
    assert [row.relabelled for row in selection.summary().per_class] == expected


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
    assert len(text.splitlines()) < 45
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
    lines = str(summary).split("\n\n")[1].splitlines()
    assert lines[1].startswith("(empty)")
    assert lines[2].startswith("a b\\u001b[1m")
    assert max(map(len, lines)) < 110


def test_a_session_shows_the_table(digits40):
    summary = KnockoffsSPR().fit(digits40.X, digits40.y).selection_.summary()
    assert repr(summary) == str(summary)


def test_what_a_session_shows_is_short(digits40):
    selection = KnockoffsSPR().fit(digits40.X, digits40.y).selection_
    rows = selection.draw_checks(20)
    done = selection.with_checks(rows, digits40.y_true[rows])
    for value in (selection.noise, done.noise, done.checked, done.cut_groups, done.estimates()):
        assert len(repr(value)) < 600
        assert "array(" not in repr(value)
    assert repr(selection.relabel()).startswith("Change ")
    assert "array(" not in repr(selection.ends())


def test_both_ends_of_the_rate_are_numbers_of_the_summary(digits40):
    selection = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    assert selection.summary().ends == selection.ends()
    assert 0 < selection.ends().by_class < 0.2


def test_with_few_rows_the_ends_say_how_much_more_it_may_be(digits40):
    whole = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_.ends()
    assert whole.error > 0.004
    few = KnockoffsSPR(q=0.1).fit(digits40.X[:300], digits40.y[:300]).selection_.ends()
    assert few.error > 2 * whole.error
    assert str(few).endswith(f"With so few rows it may well be {100 * few.error:.1f} points more.")
    assert "points more" not in str(replace(few, error=0.0))
