"""The page's addresses: what they answer, to whom, and that data cannot become markup."""

import csv
import io
import re
from importlib.resources import files

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import Selection
from kspr.runs.run import load_run
from kspr.runs.verify import verification_of, verify_run
from tests.review.conftest import NAMES, Client, make_run


def test_a_hundred_checks_move_the_cut_of_the_run(client, run, truth):
    client.check(100, lambda row: truth[row["position"]])
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


def test_rows_come_ahead_and_only_those_that_are_missing(client):
    first = client.ask("/api/rows")
    assert len(first["rows"]) == len(first["waiting"]) == 6
    have = ",".join(str(p) for p in first["waiting"][:4])
    again = client.ask("/api/rows", have=have)
    assert [row["position"] for row in again["rows"]] == first["waiting"][4:]


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
    assert row["answers"] == {"Anna": row["given"], "Ben": "?"}
    (own,) = ben.ask("/api/decisions")["rows"]
    assert (own["answer"], own["outcome"]) == ("?", "?")
    assert ben.answer("settle", (row["position"], row["given"])).status_code == 200
    assert anna.ask("/api/decisions")["rows"][0]["outcome"] == row["given"]


def test_a_blind_row_shows_its_labels_after_the_answer(run, opened):
    client = Client(opened(run, blind=True))
    row = client.ask("/api/rows")["rows"][0]
    assert set(row) == {"position", "blind", "content"}
    address = f"/api/row/{row['position']}"
    assert client.get(address, params={"reviewer": "Anna"}).status_code == 400
    client.answer("check", (row["position"], 4))
    shown = client.ask(address)
    assert shown["answer"] == 4
    assert shown["given"] in range(10)
    # It may be changed once the labels are seen.
    assert client.answer("check", (row["position"], 5)).status_code == 200
    assert client.ask(address)["answer"] == 5


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
