"""The report says what the selection says, in one file that asks nothing of the network."""

import re
import sys
from dataclasses import replace

import numpy as np
import pytest
from report_samples import Page, Texts

from kspr import InputError, KnockoffsSPR, MissingExtraError, selection_quality
from kspr.report import _facts, write_report
from kspr.report._cards import borderline_rows
from kspr.report._histograms import histogram
from kspr.report._noise import count_suggestions, describe, largest_flips
from kspr.report._scale import scale_of
from kspr.report._words import count, level, number, share


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_head_of_the_page_shows_the_selections_numbers(chosen, write):
    page = write(chosen)
    summary = chosen.summary()
    tiles = page.tiles()
    relabelled = sum(row.relabelled for row in summary.per_class)
    assert tiles["kept"][0] == count(summary.n_kept)
    assert tiles["suspects"][0] == count(len(chosen.suspect_indices))
    assert tiles["suspects"][1] == f"{count(relabelled)} with a suggested label"
    assert tiles["error rate: asked / met"][0] == "5 % / 5 %"
    assert f"{count(summary.n_kept)} of {count(summary.n)} labels are kept" in page.text


def test_the_table_of_classes_shows_the_summary(raised, write):
    rows = write(raised).table("classes")
    for cut_groups, row in zip(rows, raised.summary().per_class, strict=True):
        assert cut_groups[:7] == [
            str(row.label),
            count(row.n),
            count(row.n_kept),
            spaced(share(row.n_kept / row.n)),
            "2 %",
            spaced(level(row.q_reached)),
            count(row.relabelled),
        ]
        assert set(re.findall("[a-z]+", cut_groups[7])) == set(row.status)


def test_the_dial_shows_what_other_levels_keep(chosen, write):
    rows = {cut_groups[0]: cut_groups for cut_groups in write(chosen).table("figures")}
    for q in (0.02, 0.05, 0.2):
        other = chosen.at(q)
        shown = rows[spaced(level(q))]
        assert shown[1] == count(int(other.clean_mask.sum()))
        assert shown[-1] == count(int((other.cut_groups.status == "empty").sum()))


@pytest.mark.parametrize("which", ["chosen", "exchangeable", "unsplit_paper"])
def test_the_suspects_come_worst_first(which, request, write):
    selection = request.getfixturevalue(which)
    cards = write(selection, max_suspects=40).cards("suspects")
    assert len(cards) == 40
    for card, row in zip(cards, selection.suspect_indices, strict=False):
        text = Page.plain(card)
        assert text.startswith(f"{row} {selection.label[row]}")
        if selection.control == "transition":
            assert f"doubt {spaced(share(selection.statistic[row]))}" in text
        else:
            assert f"time {number(selection.selection_time[row])}" in text
            assert f"W {number(selection.statistic[row])}" in text
        if selection.label[row] != selection.suggested_label[row]:
            assert f"→ {selection.suggested_label[row]}" in text


def test_a_card_says_which_level_admits_its_row(chosen, write):
    page = write(chosen)
    row = borderline_rows(chosen, 1)[0]
    wanted = f"kept from q = {spaced(level(chosen.q_value[row]))}"
    assert wanted in Page.plain(page.cards("borderline")[0])


def test_the_matrix_counts_every_suspect_once(chosen):
    table, shown = count_suggestions(chosen)
    assert len(shown) == len(chosen.classes)
    assert table.sum() == len(chosen.suspect_indices)
    off_diagonal = table.sum(axis=1) - np.diag(table)
    assert off_diagonal.tolist() == [row.relabelled for row in chosen.summary().per_class]


def test_how_it_was_made_shows_the_manifest(chosen, write):
    page = write(chosen, command="kspr select 'a b.npz' --q 0.05")
    text = Page.plain(page.section("made"))
    assert "kspr select 'a b.npz' --q 0.05" in text
    manifest = chosen.manifest
    assert manifest.fingerprint in text
    assert f"seed {manifest.seed}" in text
    for parameter, value in manifest.parameters.items():
        assert f"{parameter} {value}" in text
    for package, version in manifest.versions.items():
        assert f"{package} {version}" in text


def test_the_truth_is_measured_beside_the_promise(chosen, digits40, write):
    names = np.array([f"digit {k}" for k in range(10)])
    page = write(chosen, truth=names[digits40.y_true])
    quality = selection_quality(chosen.clean_mask, digits40.right)
    tiles = page.tiles()
    assert tiles["wrong among the kept (FSR)"][0] == spaced(level(quality.fsr))
    assert tiles["right labels kept (recall)"][0] == spaced(share(quality.recall))
    assert tiles["both in one (F1)"][0] == number(quality.f1)
    assert "Measured on the truth that was given" in page.text
    wrong = [card for card in page.cards("suspects") if "✗" in card]
    rows = chosen.suspect_indices[:200]
    assert len(wrong) == int((~digits40.right[rows]).sum())


def test_truth_in_another_type_is_compared_by_its_text(raised, digits40):
    as_text = _facts.check(raised, digits40.y_true.astype(str))
    assert as_text == _facts.check(raised, digits40.y_true)


def test_what_is_not_given_is_left_out(chosen, write):
    page = write(chosen)
    assert "the features were not given" in page.text
    assert "Held against the truth" not in page.text
    assert "data:image/jpeg" not in page.source
    assert "None" not in Page.plain(page.section("suspects"))


@pytest.mark.parametrize(
    ("which", "words", "axis"),
    [
        ("chosen", "depends on the true class only", "surely wrong"),
        ("exchangeable", "any of the wrong classes with equal chance", "loses to most"),
        ("unsplit_paper", "on real features it does", "knockoff fits better"),
        ("checked", "25 checked rows were drawn at random", "surely wrong"),
    ],
)
def test_each_control_speaks_its_own_language(which, words, axis, request, write):
    selection = request.getfixturevalue(which)
    page = write(selection)
    assert selection.assumption in page.text
    assert words in page.text
    assert axis in histogram(selection)
    assert scale_of(selection).heading in page.text
    assert "guarantee" not in page.text.lower()
    assert ("knockoff" in Page.plain(page.section("figures"))) == (which == "unsplit_paper")


def test_the_noise_is_shown_with_its_intervals(flipped, write):
    """A fifth of the twos are called sevens; nothing else is wrong."""
    page = write(flipped)
    section = Page.plain(page.section("noise"))
    low, high = map(spaced, map(level, flipped.noise.rate_interval))
    assert f"{spaced(level(flipped.noise.rate))} of all labels are wrong" in section
    assert f"{low} to {high}" in section
    first = largest_flips(flipped.noise)[0]
    assert (first.true, first.label) == ("2", "7")
    assert first.low <= 0.2 <= first.high
    shown = f"2 → 7 {level(first.chance)} ({level(first.low)} to {level(first.high)})"
    assert spaced(shown) in section
    assert "stands out" not in section


def test_even_noise_is_said_to_be_even(chosen, write):
    assert "None of them stands out" in Page.plain(write(chosen).section("noise"))


def test_noise_that_was_not_estimated_is_not_shown(unsplit_paper, shares, write):
    for selection in (unsplit_paper, shares):
        assert '<section id="noise">' not in write(selection).source


def test_the_noise_of_many_classes_is_drawn_for_the_most_concerned(write):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 20)
    selection = KnockoffsSPR(q=0.3).fit(rng.standard_normal((len(y), 8)), y).selection_
    page = write(selection)
    assert "The 20 classes with most flips, of 30." in page.text
    assert len(describe(selection.noise).figure) < 250_000


def test_checked_rows_are_said_to_carry_the_error_rate(checked, write):
    page = write(checked)
    assert "It rests on rows that a person has checked" in page.text
    assert "with 95% confidence" in page.text
    assert not np.isin(borderline_rows(checked, 24), checked.checked.rows).any()


def test_spr_is_said_to_have_no_error_rate(shares, write):
    page = write(shares)
    assert "there is no error rate here" in page.text
    assert page.tiles()["error rate: asked / met"][0] == "none"
    assert "no curve to draw" in page.text
    assert "W " not in Page.plain(page.cards("suspects")[0])


def test_nothing_refers_to_the_network(chosen, digits40, pictures, write):
    source = write(chosen, items=pictures, features=digits40.X, truth=chosen.label).source
    assert not re.search(r"https?://|//[a-z]+\.", source)
    assert not re.search(r"@import|<link(?! rel=\"icon\" href=\"data:,\")|<script src", source)
    assert all(uri.startswith("data:image/jpeg") for uri in re.findall(r'src="([^"]*)"', source))
    assert set(re.findall(r'href="(.)', source)) == {"#", "d"}


def test_ids_are_unique(chosen, digits40, write):
    ids = re.findall(r' id="([^"]*)"', write(chosen, features=digits40.X).source)
    assert len(ids) == len(set(ids))


def test_equal_arguments_give_equal_bytes(shares, blobs, write):
    first = write(shares, features=blobs.X)
    assert first == write(shares, features=blobs.X)


def test_labels_titles_and_texts_are_escaped(blobs, write):
    names = np.array(["<script>alert(1)</script>", "a & b", '"$x$"'])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    texts = Texts(["<img src=x onerror=alert(2)>"] * len(selection))
    page = write(selection, title="<b>t</b>", items=texts, command="<i>", features=blobs.X)
    assert "<script>alert" not in page.source
    assert "<img" not in page.source
    assert "<b>t</b>" not in page.source
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.source
    assert page.source.count("<script") == 1
    assert {cut_groups[0] for cut_groups in page.table("classes")} == set(names)


def test_a_failed_report_leaves_what_was_there(shares, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("before")
    monkeypatch.setattr("pathlib.Path.write_text", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        write_report(shares, path, title="T")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("missing", ["matplotlib", "jinja2"])
def test_a_missing_extra_is_named(shares, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingExtraError, match=r"pip install 'knockoffs-spr\[report\]'"):
        write_report(shares, tmp_path / "r.html", title="T")


@pytest.mark.parametrize("name", ["row_id", "truth", "features"])
def test_rows_that_do_not_match_are_refused(shares, tmp_path, name):
    with pytest.raises(InputError, match=f"{name} has 3 rows but the selection has 360"):
        write_report(shares, tmp_path / "r.html", title="T", **{name: np.zeros((3, 2))})


def test_drawing_leaves_the_users_settings_alone(shares):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 23, "text.color": "#ff0000"}):
        drawn = histogram(shares)
        assert mpl.rcParams["font.size"] == 23
    assert drawn == histogram(shares)
    assert "#ff0000" not in drawn


def test_a_single_row_is_enough(shares, write):
    keep = np.zeros(len(shares), dtype=bool)
    keep[0] = True
    page = write(replace(shares, clean_mask=~keep), max_borderline=0)
    assert len(page.cards("suspects")) == 1
    assert "The only one." in page.text
    assert "None are shown here." in page.text
