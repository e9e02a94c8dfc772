"""Rows to check on the page: what is in the file, and what may run in it."""

import base64
import hashlib
import re
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kspr import InputError
from kspr.report._cards import Contents
from kspr.report._checking import LENGTH, SIDE, checking
from kspr.report._next import next_steps
from kspr.runs.answers import Checks
from kspr.runs.draws import ToCheck
from tests.report.samples import Page, Pictures, Texts

DRAW = Checks("pool", "mean", 0.95, 0.05, 0, "of the data")


@pytest.fixture
def drawn(chosen) -> ToCheck:
    rows = chosen.draw(40, q=0.05)
    lines = [
        [
            str(row),
            f"id {row}",
            str(chosen.label[row]),
            str(chosen.suggested_label[row]),
            "",
            "pool",
        ]
        for row in rows
    ]
    return ToCheck(DRAW, tuple(rows.tolist()), tuple(lines))


def test_rows_come_in_the_order_of_the_draw(chosen, drawn, pictures, write):
    data = write(chosen, to_check=drawn, run=Path("a run"), items=pictures).to_check
    rows = list(drawn.positions)
    assert data["id"] == [f"id {row}" for row in rows]
    assert [data["classes"][code] for code in data["given"]] == chosen.label[rows].tolist()
    others = chosen.suggested_label[rows] != chosen.label[rows]
    assert [code >= 0 for code in data["suggested"]] == others.tolist()
    assert all(content[0] == "I" for content in data["content"])


def test_the_page_says_what_to_do_with_the_answers(chosen, drawn, write):
    page = write(chosen, to_check=drawn, run=Path("a run"))
    assert "Check 40 rows yourself" in page.text
    assert "kspr verify 'a run' --answers 'a run-answers.csv'" in page.text
    assert 'download="a run-answers.csv"' in page.source
    assert "nothing is computed here" in page.text


def test_the_three_scripts_of_the_page_may_run_and_no_other(chosen, drawn, write):
    source = write(chosen, to_check=drawn, run=Path("r")).source
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', source)[1]
    scripts = re.findall(r"<script>(.*?)</script>", source, re.S)
    hashes = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert len(scripts) == 3
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    assert f"script-src {allowed};" in policy
    assert "default-src 'none'" in policy


def test_ids_and_links_stay_sound(chosen, drawn, write):
    source = write(chosen, to_check=drawn, run=Path("r")).source
    ids = re.findall(r' id="([^"]*)"', source)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:aria-controls|aria-labelledby)="([^"]*)"', source)) <= set(ids)
    assert not re.search(r"https?://|innerHTML|eval\(", source)


def test_a_picture_is_large_enough_to_be_judged(chosen, drawn, write):
    pixels = np.broadcast_to(np.zeros((1200, 700, 3), np.uint8), (len(chosen), 1200, 700, 3))
    data = write(chosen, to_check=drawn, run=Path("r"), items=Pictures(pixels)).to_check
    image = Image.open(BytesIO(base64.b64decode(data["content"][0][1:])))
    assert max(image.size) == SIDE


def test_a_long_text_is_cut_later_than_on_a_card(chosen, drawn, write):
    texts = Texts(["word " * 4000] * len(chosen))
    data = write(chosen, to_check=drawn, run=Path("r"), items=texts).to_check
    assert len(data["content"][0]) == 1 + LENGTH


def test_where_room_ends_the_first_rows_of_the_draw_are_shown(chosen, drawn, write):
    texts = Texts(["x" * 2000] * len(chosen))
    page = write(chosen, to_check=drawn, run=Path("r"), items=texts, megabytes=0.03)
    data = page.to_check
    assert data["id"] == [f"id {row}" for row in drawn.positions[:15]]
    assert len(data["before"]) == len(data["content"]) == 15
    assert "40 rows are to be checked; this file has 0.03 MB for texts" in page.text
    assert "Check 15 rows" in Page.plain(page.section("next"))
    with pytest.raises(InputError, match="megabytes=0 leaves no room"):
        checking(chosen, drawn, Path("r"), Contents(texts, 0))


def test_rows_without_content_can_be_checked_by_their_names(chosen, drawn):
    found = checking(chosen, drawn, Path("r"), Contents(None, 0))
    assert found.n == 40
    assert found.kind is None


def test_answers_in_a_browser_belong_to_exactly_these_rows(chosen, drawn, write):
    def key(to_check):
        return write(chosen, to_check=to_check, run=Path("r")).to_check["key"]

    fewer = ToCheck(DRAW, drawn.positions[:39], drawn.lines[:39])
    other = replace(drawn, checks=replace(DRAW, q=0.1))
    assert len({key(drawn), key(fewer), key(other)}) == 3
    assert key(drawn) == key(ToCheck(DRAW, drawn.positions, drawn.lines))


def test_digits_stand_for_classes_and_never_mislead(chosen, drawn, digits40, write, unsplit_paper):
    keys = write(chosen, to_check=drawn, run=Path("r")).to_check["keys"]
    assert keys == [*"123456789", ""]
    # Classes that are digits have their own; 0 is none of the classes, and has to be typed.
    keys = write(unsplit_paper, to_check=drawn, run=Path("r")).to_check["keys"]
    assert keys == ["", *"123456789"]


def test_the_next_step_leads_to_the_rows(chosen, drawn, write):
    steps = next_steps(chosen, Path("r"), None, None, n_to_check=40)
    assert (steps[0].title, steps[0].command) == ("Check 40 rows", "")
    assert 'href="#checking"' in write(chosen, to_check=drawn, run=Path("r")).section("next")


def test_without_rows_there_is_no_trace_of_checking(chosen, write):
    source = write(chosen).source
    assert "checking-data" not in source
    assert "localStorage" not in source
