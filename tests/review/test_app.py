"""The page's addresses: what they answer, to whom, and that data cannot become markup."""

import csv
import io
import re
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import InputError, Selection
from kspr.runs.run import load_run
from kspr.runs.verify import verification_of, verify_run
from tests.review.conftest import NAMES, Client, make_run
from tests.selectors.simulated import by_control


def test_a_hundred_checks_move_the_cut_of_the_run(client, run, truth):
    client.check(200, lambda row: truth[row["position"]])
    assert client.ask("/api/rows")["rows"] == []
    now = client.ask("/api/progress")
    assert (now["done"], now["complete"]) == (100, True)
    found = verification_of(load_run(run))
    assert (found.n_counted, found.n_kept) == (100, now["kept"])
    rows = Selection.load(run, answers=False).draw_checks(100, q=0.2)
    expected = Selection.load(run, answers=False).with_checks(
        rows, np.sort(NAMES)[np.array(truth)[rows]], q=0.2
    )
    assert np.array_equal(Selection.load(run).clean_mask, expected.clean_mask)


def test_rows_come_ahead_in_their_order(client):
    first = client.ask("/api/rows")
    order = [row["position"] for row in first["rows"]]
    assert order == list(client.session.checks.positions[:6])
    assert (first["done"], first["left"]) == (0, 110)
    client.check(2, lambda row: row["given"])
    again = client.ask("/api/rows")
    assert [row["position"] for row in again["rows"]][:4] == order[2:]
    assert (again["done"], again["left"]) == (2, 108)


def test_an_answered_row_is_answered_again_only_on_purpose(client):
    """A second tab that is out of date must not change an answer without a word."""
    row = client.ask("/api/rows")["rows"][0]["position"]
    assert client.answer("check", (row, 1)).status_code == 200
    late = client.answer("check", (row, 2))
    assert late.status_code == 400
    assert "in another window" in late.json()["error"]
    assert [e["answer"] for e in client.ask("/api/decisions")["rows"]] == [1]
    meant = client.submit("/api/answer", queue="check", answers=[[row, 2]], again=True)
    assert meant.status_code == 200
    assert [e["answer"] for e in client.ask("/api/decisions")["rows"]] == [2]


def test_the_report_of_the_answers_so_far_is_a_page_with_its_own_policy(client, run):
    client.check(3, lambda row: row["given"])
    before = sorted(path.name for path in run.iterdir())
    page = client.get("/report")
    assert page.status_code == 200
    assert 'http-equiv="Content-Security-Policy"' in page.text
    assert "Answered on the review page by" in page.text
    assert page.headers["content-security-policy"] == "frame-ancestors 'none'"
    assert sorted(path.name for path in run.iterdir()) == before


def test_filters_count_the_rows_of_every_label(client):
    page = client.ask("/api/suspects")
    counts = page["counts"]
    assert sum(counts["given"]) == sum(counts["suggested"]) == page["total"]
    narrow = client.ask("/api/suspects", given=3)
    assert narrow["total"] == counts["given"][3] == sum(narrow["counts"]["suggested"])
    # The others are counted as they would be without this filter.
    assert narrow["counts"]["given"] == counts["given"]


def test_guidelines_are_shown_as_text(run, opened, tmp_path):
    (tmp_path / "how.md").write_text("A <b>pickup</b> is a truck.\n\u202eThen")
    client = Client(opened(run, guidelines=tmp_path / "how.md"))
    shown = client.ask("/api/start")["guidelines"]
    assert shown.startswith("A <b>pickup</b> is a truck.\n")
    assert "\u202e" not in shown
    (tmp_path / "long.md").write_text("x" * 100_001)
    with pytest.raises(InputError, match="Shorten the guidelines"):
        opened(run, guidelines=tmp_path / "long.md")


def test_nobody_sees_anothers_answer_before_giving_their_own(run, opened):
    session = opened(run)
    anna, ben = Client(session), Client(session, "Ben")
    anna.check(3, lambda row: row["given"])
    before = ben.ask("/api/rows")["rows"][0]
    assert "answer" not in before
    assert "answers" not in before
    assert ben.ask("/api/disputed")["rows"] == []
    assert ben.ask("/api/decisions")["rows"] == []
    ben.check(1, lambda row: "?")
    (row,) = ben.ask("/api/disputed")["rows"]
    assert row["answers"] == [["Anna", row["given"]], ["Ben", "?"]]
    (own,) = ben.ask("/api/decisions")["rows"]
    assert (own["answer"], own["outcome"]) == ("?", "?")
    assert ben.answer("settle", (row["position"], row["given"])).status_code == 200
    assert anna.ask("/api/decisions")["rows"][0]["outcome"] == row["given"]


def test_a_blind_row_shows_its_labels_after_the_answer(run, opened):
    client = Client(opened(run, blind=True))
    row = client.ask("/api/rows")["rows"][0]
    assert set(row) == {"position", "blind", "content", "queue"}
    address = f"/api/row/{row['position']}"
    assert client.get(address, params={"reviewer": "Anna"}).status_code == 400
    client.answer("check", (row["position"], 4))
    assert client.ask(address)["given"] in range(10)
    # It may be changed once the labels are seen.
    changed = client.submit(
        "/api/answer", queue="check", answers=[[row["position"], 5]], again=True
    )
    assert changed.status_code == 200
    assert client.ask("/api/decisions")["rows"][0]["answer"] == 5


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queue": "check"},
        {"queue": "other", "answers": [[0, 0]]},
        {"queue": "check", "answers": [[0]]},
        {"queue": "check", "answers": {"0": 0}},
        {"queue": "check", "answers": [[[], 0]]},
        {"queue": "check", "answers": [[0, [1]]]},
        {"queue": "fix", "answers": [[0, 10**30]], "reviewer": ""},
    ],
)
def test_a_request_that_makes_no_sense_is_one_sentence(client, run, body):
    found = client.submit("/api/answer", **body)
    assert found.status_code == 400
    assert found.json()["error"].endswith(".")
    assert client.session.log.entries() == []


def test_what_is_no_json_is_refused(client):
    headers = {"origin": "http://127.0.0.1:8765", "content-type": "application/json"}
    for content in (b"{", b"[1]", b"\xff", b"[" * 100_000):
        assert client.post("/api/answer", content=content, headers=headers).status_code == 400


def test_many_suspects_are_accepted_together_and_undone_together(client, run):
    page = client.ask("/api/suspects")
    chosen = [row for row in page["rows"] if row["suggested"] is not None][:20]
    pairs = [(row["position"], row["suggested"]) for row in chosen]
    assert client.answer("fix", *pairs).json() == {"saved": 20}
    assert client.ask("/api/suspects")["total"] == page["total"] - 20
    now = client.ask("/api/progress")
    assert (now["picked"], now["done"]) == (20, 0)
    undone = client.submit("/api/undo", queue="fix").json()["rows"]
    assert undone == [position for position, _ in pairs]
    assert client.ask("/api/suspects")["total"] == page["total"]


def test_decisions_come_as_csv_that_verify_reads(client, run, truth, tmp_path):
    client.check(5, lambda row: truth[row["position"]])
    client.check(1, lambda row: "-")
    found = client.get("/answers.csv", params={"reviewer": "Anna"})
    rows = list(csv.DictReader(io.StringIO(found.text)))
    assert len(rows) == 6
    # A spreadsheet would take it for the beginning of a formula.
    assert rows[5]["true_label"] == "'-"
    (tmp_path / "a.csv").write_text(found.text)
    before = Selection.load(run).clean_mask
    verify_run(run, tmp_path / "a.csv")
    assert np.array_equal(Selection.load(run).clean_mask, before)


NASTY = [
    "<script>alert(1)</script>",
    "\u202ecat\u202c",
    "x" * 10_000,
    "' onerror='alert(1)",
    "=1+1",
]


def test_labels_and_ids_cannot_act(digits40, opened, tmp_path):
    names = np.array(NASTY)
    y = digits40.y[:600] % 5
    table = pa.table(
        {
            "id": [f"<img src=x onerror=alert({k})>\u202e" for k in range(600)],
            "label": names[y],
            **{f"p{i}": digits40.X[:600, i] for i in range(64)},
        }
    )
    pq.write_table(table, tmp_path / "n.parquet")
    made = make_run(tmp_path / "n.parquet", tmp_path / "<b>run", features="p*")
    client = Client(opened(made.folder))
    start = client.ask("/api/start")
    assert max(map(len, start["classes"])) <= 160
    assert "\u202e" not in str(start)
    row = client.ask("/api/rows")["rows"][0]
    assert "\u202e" not in str(row)
    page = client.get("/").text
    assert "<b>run" not in page
    assert "&lt;b&gt;run" in page
    # The name of the class as it is goes into the log, not what is shown of it.
    client.check(1, lambda row: row["given"])
    assert client.session.log.entries()[0].answer in NASTY
    saved = client.get("/answers.csv", params={"reviewer": "Anna"}).text
    assert not re.search(r"(^|,)=", saved, re.M)


def test_scripts_of_the_page_never_make_markup_of_text():
    page = files("kspr.review") / "page"
    for file in page.iterdir():
        if file.name.endswith(".js"):
            text = file.read_text()
            for way in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval("):
                assert way not in text, file.name
    template = (page / "page.html").read_text()
    assert "|safe" not in template.replace(" ", "")
    everything = " ".join(file.read_text() for file in page.iterdir())
    links = set(re.findall(r"https?://[^\s\"'`]+", everything))
    assert links == {"http://www.w3.org/2000/svg"}
    assert "@import" not in everything
    assert "url(" not in everything


@pytest.mark.parametrize("control", ["people", "paper"])
def test_a_doubt_is_shown_where_it_is_a_chance(table, tmp_path, opened, control):
    pq.write_table(table, tmp_path / "digits.parquet")
    selector = by_control(0.2, control=control)
    run = make_run(tmp_path / "digits.parquet", tmp_path / "run", selector, features="p*")
    client, shown = Client(opened(run.folder)), control == "people"
    assert client.ask("/api/start")["has_doubt"] is shown
    assert (client.ask("/api/rows")["rows"][0]["doubt"] is not None) is shown
