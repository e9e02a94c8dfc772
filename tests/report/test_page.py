"""What the page shows, section by section."""

import re
from dataclasses import replace

import numpy as np
import pytest

from kspr import KnockoffsSPR, selfcheck
from kspr.report._cards import borderline_rows
from kspr.report._plots import histogram
from kspr.report._words import count, level, scale_of, share
from tests.report.samples import Page, Texts


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
    assert tiles["error rate: asked / reached"][0] == "5 % / 5 %"
    assert f"{count(summary.n_kept)} of {count(summary.n)} labels are kept" in page.text


def test_the_table_of_classes_shows_the_summary(raised, write):
    rows = write(raised).table("classes")
    for cells, row in zip(rows, raised.summary().per_class, strict=True):
        assert cells[:7] == [
            str(row.label),
            count(row.n),
            count(row.n_kept),
            spaced(share(row.n_kept / row.n)),
            "2 %",
            spaced(level(row.q_reached)),
            count(row.relabelled),
        ]
        assert set(re.findall("[a-z]+", cells[7])) == set(row.status)


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


def test_what_is_not_given_is_left_out(chosen, write):
    page = write(chosen)
    assert "the features were not given" in page.text
    assert "Compared with the true labels" not in page.text
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
def test_each_control_is_explained_with_its_own_assumption(which, words, axis, request, write):
    selection = request.getfixturevalue(which)
    page = write(selection)
    assert selection.assumption in page.text
    assert words in page.text
    assert axis in histogram(selection)
    assert scale_of(selection).heading in page.text
    assert "guarantee" not in page.text.lower()
    assert ("knockoff" in Page.plain(page.section("figures"))) == (which == "unsplit_paper")


def test_checked_rows_are_said_to_carry_the_error_rate(checked, write):
    page = write(checked)
    assert "It is computed from rows that a person has checked" in page.text
    assert "with 95% confidence" in page.text
    assert not np.isin(borderline_rows(checked, 24), checked.checked.rows).any()


def test_spr_is_said_to_have_no_error_rate(shares, write):
    page = write(shares)
    assert "It estimates no error rate" in page.text
    assert page.tiles()["error rate: asked / reached"][0] == "none"
    assert "Left out: SPR estimates no error rate" in page.text
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
    assert {cells[0] for cells in page.table("classes")} == set(names)


def test_a_single_row_is_enough(shares, write):
    keep = np.zeros(len(shares), dtype=bool)
    keep[0] = True
    page = write(replace(shares, clean_mask=~keep), max_borderline=0)
    assert len(page.cards("suspects")) == 1
    assert "The only one." in page.text
    assert "None are shown here." in page.text


def test_many_classes_are_capped(write):
    """700 classes of 4: the table, the notice, the matrix and the multiples stay short."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(700), 4)
    X = rng.standard_normal((len(y), 8)).astype(np.float32)
    selection = KnockoffsSPR.paper().fit(X, y).selection_
    page = write(selection, features=X)
    rows = page.table("classes")
    assert len(rows) == 300
    suspects = {str(row.label): row.n - row.n_kept for row in selection.summary().per_class}
    shown = [suspects[cells[0]] for cells in rows]
    assert min(shown) >= sorted(suspects.values())[-300]
    assert "Shown are the 300 of 700 classes with most suspects" in page.text
    assert "more classes" in page.text
    assert page.source.count("<figure>") == 4 + 12
    assert len(page.source) < 10**6


def section(page, name):
    found = page.source[page.source.index(f'id="{name}"') :]
    return Page.plain(found[found.index(">") + 1 : found.index("</section>")])


def test_a_selfcheck_is_shown_with_its_verdicts(chosen, digits40, write):
    found = selfcheck(digits40.X, digits40.y, repeats=1)
    page = write(chosen, selfcheck=found)
    text = section(page, "selfcheck")
    assert text.startswith(f"Self-check: {found.verdict}")
    assert found.advice in text
    for row in found.kinds:
        shown = f"{level(row.promised)} {level(row.found)} ± {level(row.error)} {row.verdict}"
        assert f"{row.n_flipped} {row.n_flipped_kept} {shown}".replace("\u202f", " ") in text


def test_a_check_that_kept_nothing_shows_dashes(chosen, blobs, write):
    found = selfcheck(blobs.X, blobs.y, repeats=1, kinds=[])
    nothing = replace(found, kinds=(replace(found.kinds[0], n_kept=0),))
    dash = level(None)
    assert f"{dash} {dash} cannot tell" in section(write(chosen, selfcheck=nothing), "selfcheck")


def test_without_checks_their_sections_are_left_out(chosen, write):
    source = write(chosen).source
    assert 'id="selfcheck"' not in source
    assert 'id="verification"' not in source
