"""What the page shows, section by section."""

import base64
import hashlib
import re
from dataclasses import replace

import numpy as np
import pytest

from kspr import KnockoffsSPR, selfcheck
from kspr._figures import drawn
from kspr.report._cards import borderline_rows
from kspr.report.contents import count, level, scale_of, share
from kspr.report.plots import draw_doubt
from kspr.selectors import PaperKnockoffsSPR
from tests.report.samples import VERIFIED, Page, Texts


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_head_of_the_page_shows_the_selections_numbers(chosen, write):
    page = write(chosen)
    summary = chosen.summary()
    tiles = page.tiles()
    assert tiles["kept"][0] == count(summary.n_kept)
    assert tiles["probably wrong"][0] == count(summary.verdict.n_probably_wrong)
    assert tiles["uncertain"][0] == count(summary.verdict.n_uncertain)
    assert tiles["error rate (q)"] == ("5 %", "assumed, not yet checked by a person")


@pytest.mark.parametrize("which", ["chosen", "checked", "raised", "shares"])
def test_the_verdict_comes_first_and_is_that_of_the_summary(which, request, write):
    selection = request.getfixturevalue(which)
    page = write(selection)
    assert page.text.startswith(f"T: label report Label report T {selection.summary().verdict}")


def test_the_table_of_classes_shows_the_summary(raised, write):
    rows = write(raised).table("classes")
    for cells, row in zip(rows, raised.summary().per_class, strict=True):
        assert cells[:7] == [
            str(row.label),
            count(row.n),
            count(row.n_kept),
            spaced(share(row.n_kept / row.n)),
            count(row.probably_wrong),
            count(row.uncertain),
            spaced(level(row.q_reached)),
        ]


def test_how_it_was_made_shows_the_manifest(chosen, write):
    page = write(chosen, command="kspr select 'a b.npz' --q 0.05")
    text = Page.plain(page.section("made"))
    assert "kspr select 'a b.npz' --q 0.05" in text
    manifest = chosen.manifest
    assert manifest.fingerprint in text
    assert str(manifest.seed) not in text.replace(manifest.fingerprint, "")
    given = {**manifest.parameters, "seed": manifest.parameters["random_state"]}
    del given["random_state"]
    for parameter, value in given.items():
        assert f"{parameter} {value}" in text
    for package, version in manifest.versions.items():
        assert f"{package} {version}" in text


def test_what_is_not_given_is_left_out(chosen, write):
    page = write(chosen)
    assert "Compared with the true labels" not in page.text
    assert "<img" not in page.source
    assert page.data["content"] == []
    assert "None" not in Page.plain(page.section("suspects"))


@pytest.mark.parametrize(
    ("which", "words", "axis"),
    [
        ("chosen", "people mislabel the hard cases more often", "surely wrong"),
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
    assert axis in drawn("d", "", (390, 240), draw_doubt, selection)
    assert scale_of(selection).heading in page.text
    # A parameter has that name; no sentence uses the word.
    said = page.source.replace(page.section("made"), "")
    assert "guarantee" not in Page(said).text.lower()
    assert ("knockoff" in Page.plain(page.section("figures"))) == (which == "unsplit_paper")


def test_checked_rows_are_said_to_carry_the_error_rate(checked, write):
    page = write(checked)
    assert page.tiles()["error rate (q)"][1] == "measured by 25 checked rows"
    assert "at most q on average over such draws, whatever the noise is" in page.text
    assert "Assumes" not in page.text
    assert not np.isin(borderline_rows(checked, 24), checked.checked.rows).any()


def test_spr_is_said_to_have_no_error_rate(shares, write):
    page = write(shares)
    assert "are kept; how many of them are wrong is not estimated." in page.text
    assert page.tiles()["error rate (q)"][0] == "none"
    assert 'id="levels"' not in page.source
    assert "W " not in Page.plain(page.cards("suspects")[0])


def test_nothing_refers_to_the_network(chosen, digits40, pictures, write):
    source = write(chosen, items=pictures, truth=chosen.label).source
    assert not re.search(r"https?://|//[a-z]+\.", source)
    assert not re.search(r"@import|<link(?! rel=\"icon\" href=\"data:,\")|<script src", source)
    assert all(uri.startswith("data:image/jpeg") for uri in re.findall(r'src="([^"]*)"', source))
    assert set(re.findall(r'href="(.)', source)) == {"#", "d"}


def test_ids_are_unique(chosen, digits40, write):
    ids = re.findall(r' id="([^"]*)"', write(chosen).source)
    assert len(ids) == len(set(ids))


def test_labels_titles_and_texts_are_escaped(blobs, write):
    names = np.array(["<script>alert(1)</script>", "a & b", '"$x$"'])
    selection = KnockoffsSPR().fit(blobs.X, names[blobs.y]).selection_
    texts = Texts(["<img src=x onerror=alert(2)>"] * len(selection))
    page = write(selection, title="<b>t</b>", items=texts, command="<i>")
    assert "<script>alert" not in page.source
    assert "<img" not in page.source
    assert "<b>t</b>" not in page.source
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.source
    # Two of our own, and the data of the suspects.
    assert page.source.count("<script") == 3
    assert {cells[0] for cells in page.table("classes")} == set(names)


def test_a_single_row_is_enough(shares, write):
    keep = np.zeros(len(shares), dtype=bool)
    keep[0] = True
    page = write(replace(shares, clean_mask=~keep), max_borderline=0)
    assert len(page.cards("suspects")) == 1
    assert "The only one." in page.text
    assert "None are shown here." in page.text


def test_many_classes_are_capped(write):
    """700 classes of 4: the notice, and the matrix stay short; the table folds."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(700), 4)
    X = rng.standard_normal((len(y), 8)).astype(np.float32)
    selection = PaperKnockoffsSPR().fit(X, y).selection_
    page = write(selection)
    rows = page.table("classes")
    assert len(rows) == 700
    suspects = {str(row.label): row.n - row.n_kept for row in selection.summary().per_class}
    shown = [suspects[cells[0]] for cells in rows]
    assert shown == sorted(shown, reverse=True)
    assert "First the 10 of 700 classes with most suspects" in page.text
    assert "show the other 690 classes" in page.text
    assert "more classes" in page.text
    assert page.source.count("<figure>") == 2
    assert len(page.source) < 1.2e6


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
        verdict = row.verdict or "none: a sensitivity"
        shown = f"{level(row.promised)} {level(row.found)} ± {level(row.error)} {verdict}"
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


def test_a_class_that_keeps_nothing_is_named_before_the_suspects(write):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2, 3], [200, 200, 200, 12])
    X = rng.standard_normal((len(y), 6)) + 6 * np.eye(4, 6)[y]
    page = write(KnockoffsSPR(q=0.05, cut="per_class").fit(X, y).selection_)
    assert page.text.index("Nothing kept in 1 of 4 classes") < page.text.index("worst first")
    assert "nothing is kept, because the error rate could not be reached" in page.text
    assert "assumed" in Page.plain(page.section("classes"))


def test_a_raised_level_is_said_in_the_verdict(raised, write):
    text = write(raised).text
    assert "; 2 % was asked for" in text
    assert "A higher error rate than asked in all 10 classes" in text
    assert "samples_per_class=None" in text


def test_a_fallback_is_said_to_have_no_error_rate(write):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    selection = PaperKnockoffsSPR().fit(rng.standard_normal((60, 4)), y).selection_
    fallback = selection.cut_groups.status == "fallback"
    assert fallback.any()
    page = write(selection)
    kept = int(selection.cut_groups.n_kept[fallback].sum())
    assert f"; {kept} of them have no estimate." in page.text
    assert "No error rate for what is kept" in page.text
    assert "without an estimate of its error rate" in page.text


def test_the_page_and_the_summary_say_the_same(raised, checked, write):
    for selection in (raised, checked):
        page, summary = write(selection), selection.summary()
        for line in [*summary.details, str(summary.verdict)]:
            assert " ".join(line.split()) in page.text
        for notice in summary.notices:
            assert notice.headline in page.text
            assert notice.help in page.text


def test_the_parts_come_in_the_order_of_the_questions(chosen, digits40, write):
    source = write(chosen).source
    order = ["top", "next", "suspects", "classes", "noise", "levels", "borderline", "figures"]
    places = [source.index(f'id="{name}"') for name in (*order, "made")]
    assert places == sorted(places)


def test_what_few_readers_need_is_folded(chosen, write):
    page = write(chosen)
    for name in ("levels", "borderline", "figures", "made"):
        assert re.match(rf'<section id="{name}">\s*<details>', page.section(name))


@pytest.mark.parametrize("drawn_from", ["pool", "all"])
def test_one_noise_rate_is_shown_and_after_checks_the_checked_one(
    chosen, digits40, write, drawn_from
):
    before, page = spaced(level(chosen.noise.rate)), write(chosen)
    assert f"About {before} of all labels are wrong" in page.text
    rows = np.random.default_rng(0).permutation(len(chosen))[:150]
    if drawn_from == "pool":
        rows = chosen.draw_checks(150)
    names = np.array([f"digit {k}" for k in range(10)])
    done = chosen.with_checks(rows, names[digits40.y_true[rows]], drawn=drawn_from)
    text = write(done, verification=VERIFIED).text
    after = spaced(level(done.noise.rate))
    assert f"{after} of all labels are wrong, by the checked rows and the fit" in text
    assert f"wrong labels {after} of all rows" in text
    assert before not in text
    low, high = done.noise.rate_interval
    assert low <= np.mean(~digits40.right) <= high


def test_copies_with_different_labels_stand_together(blobs, write):
    X = np.concatenate([blobs.X, blobs.X[:3]])
    y = np.concatenate([blobs.y, [blobs.y[0], *((blobs.y[1:3] + 1) % 3)]])
    selection = KnockoffsSPR(q=0.2).fit(X, y).selection_
    page = write(selection, items=Texts([f"text {k}" for k in range(len(y))]))
    cards = [Page.plain(card) for card in page.cards("copies")]
    assert len(cards) == 2
    for card, (first, second) in zip(cards, [(1, 361), (2, 362)], strict=True):
        assert card.startswith(f"text {first} {y[first]} 1 row {first} , ")
        assert f"{y[second]} 1 row {second} , " in card
    assert 'id="copies"' not in write(KnockoffsSPR().fit(blobs.X, blobs.y).selection_).source


def test_a_number_and_its_percent_sign_stand_on_one_line(raised, checked, write):
    for selection in (raised, checked):
        source = write(selection).source
        body = re.sub(r"<(style|script|svg).*?</\1>", " ", source, flags=re.S)
        assert not re.search(r"\d %", re.sub(r"<[^>]*>", "", body))


def test_only_the_pages_own_script_may_run(chosen, write):
    source = write(chosen).source
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)[1]
    scripts = re.findall(r"<script>(.*?)</script>", source, re.S)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert len(scripts) == 2
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    assert f"script-src {allowed};" in policy
    assert "default-src 'none'" in policy


def test_without_a_seed_the_page_says_that_it_cannot_be_repeated(blobs, write):
    selection = KnockoffsSPR(random_state=None).fit(blobs.X, blobs.y).selection_
    assert "No seed was given" in Page.plain(write(selection).section("made"))


def test_sentences_about_the_checks_stand_apart(chosen, write):
    text = section(write(chosen, verification=VERIFIED), "verification")
    assert not re.search(r"[a-z]\.[A-Z]", text)
