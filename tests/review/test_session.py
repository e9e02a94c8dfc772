"""Queues: the draw in its order, picked rows that never count, rows to settle, suspects."""

import json
from dataclasses import replace

import numpy as np
import pytest

from kspr import InputError, Selection
from kspr.review import session as session_module
from kspr.review.session import Filters, Session, Settings, Suspects, check_reviewer
from kspr.runs.checks import apply_checks, read_checks
from kspr.runs.draws import draw_checks, set_draw, write_plan
from kspr.runs.verify import verify_run


def left(session, reviewer="Anna", queue="check"):
    return [position for asked, position in session.waiting(reviewer) if asked == queue]


def test_the_draw_is_made_once_and_continued(run, opened):
    first = opened(run, checks=30)
    assert len(first.checks.positions) == 30
    assert first.checks.positions == tuple(first.fitted.draw_checks(30, q=0.2).tolist())
    again = opened(run)
    assert again.checks.positions == first.checks.positions
    before = first.checks.positions
    longer = opened(run, checks=50)
    assert longer.checks.positions[:30] == before
    # A server that is running sees what another process has drawn.
    assert len(first.checks.positions) == 50
    with pytest.raises(InputError, match="--checks must be at least 50, got 20"):
        opened(run, checks=20)


def test_what_a_draw_is_for_is_fixed_when_it_is_drawn(run, opened):
    opened(run, guarantee="mean")
    with pytest.raises(InputError, match="differs from the draw"):
        opened(run, guarantee="anytime")
    session = opened(run, guarantee="anytime", q=0.3, new_draw=True)
    assert (session.checks.guarantee, session.checks.q) == ("anytime", 0.3)
    position = left(session, "Anna")[0]
    session.answer("Anna", "check", {position: 0})
    with pytest.raises(InputError, match="differs from the draw"):
        opened(run, guarantee="mean")
    assert opened(run).checks.guarantee == "anytime"


def test_rows_come_in_the_order_of_the_draw_and_none_is_passed_over(run, opened):
    session = opened(run, checks=10)
    order = list(session.checks.positions)
    assert left(session, "Anna") == order
    with pytest.raises(InputError, match="not your next row"):
        session.answer("Anna", "check", {order[1]: 0})
    session.answer("Anna", "check", {order[0]: 0})
    assert left(session, "Anna") == order[1:]
    # Another person begins at the first row, and does not see the answer.
    assert left(session, "Ben") == order
    session.answer("Anna", "check", {order[0]: 1}, again=True)
    assert session.undo("Anna", "check") == [order[0]]
    assert session.undo("Anna", "check") == [order[0]]
    assert session.undo("Anna", "check") == []
    assert left(session, "Anna") == order


def test_rows_of_the_draw_cannot_be_picked_in_fix(run, opened):
    session = opened(run, checks=10)
    with pytest.raises(InputError, match="in Check only"):
        session.answer("Anna", "fix", {session.checks.positions[4]: 0})
    other = next(p for p in range(600) if p not in session.checks.positions)
    session.answer("Anna", "fix", {other: "-"})
    found = Selection.load(run)
    assert not found.clean_mask[other]
    assert not found.checked.calibrate


def test_rows_that_were_fixed_and_drawn_later_are_asked_again(run, opened):
    order = opened(run, checks=10).fitted.draw_checks(20, q=0.2).tolist()
    session = opened(run)
    session.answer("Anna", "fix", {order[15]: "-"})
    longer = opened(run, checks=20)
    assert order[15] in left(longer, "Anna")
    assert order[15] not in longer.checks.known
    # Rows before it are not passed over: nothing is reached yet.
    assert longer.checks.reached == ()


def test_differing_answers_are_settled_by_who_has_answered(run, opened):
    session = opened(run, checks=3)
    for who, answer in (("Anna", 1), ("Ben", 2)):
        session.answer(who, "check", {session.checks.positions[0]: answer})
    first = session.checks.positions[0]
    assert session.checks.known[first] == "?"
    assert list(session.disputed("Anna")) == [first]
    assert session.disputed("Cleo") == {}
    with pytest.raises(InputError, match="not answered it yourself"):
        session.answer("Cleo", "settle", {first: 3})
    session.answer("Ben", "settle", {first: 3})
    assert session.checks.known[first] == session.names[3]
    assert session.undo("Ben", "settle") == [first]
    assert session.checks.known[first] == "?"


def test_answers_of_a_file_are_done_and_can_differ(run, opened, tmp_path):
    drawn = draw_checks(run, tmp_path / "c.csv", n=5)
    session = opened(run)
    position = left(session, "Anna")[0]
    session.answer("Anna", "check", {position: 0})
    text = drawn.path.read_text().splitlines()
    column = text[0].split(",").index("true_label")
    cells = [line.split(",") for line in text]
    for row in cells[1:4]:
        row[column] = session.names[1]
    drawn.path.write_text("\n".join(",".join(row) for row in cells))
    verify_run(run, drawn.path)
    assert len(left(session, "Ben")) == 2
    assert session.checks.known[position] == "?"
    assert session.disputed("Anna")[position].answers["a CSV file"] == session.names[1]
    stored = json.loads((run / "checks.json").read_text())
    assert len(stored["answers"]) == 3
    assert "log" not in stored


def test_a_declared_draw_is_continued_as_it_is(run, opened, tmp_path):
    rows = np.random.default_rng(5).permutation(600)[:8]
    fitted = Selection.load(run, answers=False)
    lines = [f"{row},{fitted.label[row]}" for row in rows]
    (tmp_path / "a.csv").write_text("\n".join(["row,true_label", *lines]))
    verify_run(run, tmp_path / "a.csv", "all")
    session = opened(run, checks=12)
    assert session.checks.positions[:8] == tuple(rows.tolist())
    assert len(set(session.checks.positions)) == 12
    assert session.checks.drawn == "all"
    assert left(session, "Anna") == list(session.checks.positions[8:])


@pytest.mark.parametrize("name", ["", "  ", None, 7, "x" * 61, "a\nb", "a\u202eb", "a CSV file"])
def test_a_name_is_a_name(name):
    with pytest.raises(InputError, match="A reviewer's name has 1 to 60 characters"):
        check_reviewer(name)


@pytest.mark.parametrize(
    "answers", [{}, {10**9: 0}, {-1: 0}, {"0": 0}, {0: 10}, {0: "cat"}, {0: None}, {0: True}]
)
def test_odd_answers_are_refused(run, opened, answers):
    with pytest.raises(InputError):
        opened(run).answer("Anna", "check", answers)


def test_blind_rows_tell_nothing_of_their_label(run, opened):
    session = opened(run, blind=True)
    row = session.details.row(left(session, "Anna")[0], blind=True)
    assert set(row) == {"position", "blind", "content"}


def check(session, n, said, reviewer="Anna"):
    """Answer the next `n` rows with `said(queue, position)`; return what was asked."""
    asked = []
    for _ in range(n):
        queue, position = session.waiting(reviewer)[0]
        session.answer(reviewer, queue, {position: said(queue, position)})
        asked.append((queue, position))
    return asked


def test_some_rows_are_asked_twice_and_never_soon(run, opened):
    session = opened(run, checks=40)
    given, order = session.details.given, list(session.checks.positions)
    asked, sent = [], []
    while ahead := session.waiting("Anna"):
        # What was sent ahead is what is asked.
        assert sent[1:] == ahead[: len(sent) - 1] or not sent
        sent, n_left = session.ahead("Anna")
        assert n_left == len(ahead)
        queue, position = sent[0]
        # Of the second ten rows three labels are refused, of the last ten the last three.
        refused = queue == "check" and position in (*order[10:13], *order[37:])
        session.answer("Anna", queue, {position: "-" if refused else int(given[position])})
        asked.append(sent[0])
    assert [p for queue, p in asked if queue == "check"] == order
    twice = [p for queue, p in asked if queue == "repeat"]
    # Refused labels first, two of ten rows at most, else any one.
    assert (twice[1:3], twice[-2:]) == (order[10:12], order[37:39])
    assert [order.index(p) // 10 for p in twice] == [0, 1, 1, 2, 3, 3]
    for position in twice[:-2]:
        assert asked.index(("repeat", position)) - asked.index(("check", position)) > 10
    # Nothing is drawn or counted twice.
    assert len(session.checks.known) == len(session.checks.positions) == 40


def test_the_same_second_answers_change_nothing(run, opened, truth):
    session = opened(run, checks=40)
    check(session, 48, lambda queue, position: truth[position])
    assert session.waiting("Anna") == []
    once = replace(session.checks, log=tuple(e for e in session.checks.log if e.queue == "check"))
    kept = apply_checks(session.fitted, session.checks).clean_mask
    assert np.array_equal(kept, apply_checks(session.fitted, once).clean_mask)


def test_another_second_answer_makes_a_row_wrong_until_it_is_settled(run, opened):
    session = opened(run, checks=20)
    given = session.details.given
    asked = check(session, 22, lambda queue, p: "-" if queue == "repeat" else int(given[p]))
    (_, position), (queue, last) = asked[20:]
    assert queue == "repeat"
    assert session.waiting("Anna") == []
    assert session.checks.known[position] == session.checks.known[last] == "?"
    assert list(session.disputed("Anna")) == [position, last]
    found = dict(zip(*_checked(session), strict=True))
    assert not found[position]
    assert sum(found.values()) == 18
    session.answer("Anna", "settle", {position: int(given[position])})
    assert session.checks.known[position] == session.names[given[position]]
    session.undo("Anna", "settle")
    # Undoing goes back through both kinds of answers in their order.
    assert session.undo("Anna", "check") == [last]
    assert session.undo("Anna", "check") == [position]
    assert session.undo("Anna", "check") == [asked[19][1]]
    assert session.disputed("Anna") == {}


def _checked(session):
    checked = apply_checks(session.fitted, session.checks).checked
    return checked.rows.tolist(), checked.right.tolist()


def test_a_shared_draw_asks_one_person_about_each_row(run, opened, monkeypatch):
    session = opened(run, checks=20, share=True)
    order = list(session.checks.positions)
    assert left(session, "Anna")[:6] == order[:6]
    # The rows that Anna looks at are not sent to Ben.
    assert left(session, "Ben") == order[6:]
    check(session, 2, lambda queue, position: 0)
    check(session, 1, lambda queue, position: 0, "Ben")
    assert order[6] not in left(session, "Anna")
    # Rows that somebody has left alone for long go to others: none is passed over.
    now = session_module.time.monotonic()
    monkeypatch.setattr(session_module.time, "monotonic", lambda: now + 1000)
    assert left(session, "Cleo") == [*order[2:6], *order[7:]]
    check(session, 1, lambda queue, position: "?", "Cleo")
    # In a shared draw others settle what somebody cannot tell.
    assert list(session.disputed("Ben")) == [order[2]]


def test_a_row_has_its_neighbours_and_the_other_classes(run, opened):
    session = opened(run)
    kept = session.fitted.clean_mask
    suspect = int(np.flatnonzero(session.details.given != session.details.suggested)[0])
    row = session.details.row(suspect)
    assert {row["given"], row["suggested"], *row["others"]} == set(range(10))
    for who in ("given", "suggested"):
        near = [entry["position"] for entry in row["near"][who]]
        assert near
        assert (session.details.given[near] == row[who]).all()
        assert kept[near].all()


def test_without_features_there_are_no_neighbours_and_nothing_is_embedded(run, opened, monkeypatch):
    monkeypatch.setattr("kspr.runs.run.Run.features", lambda self: None)
    row = opened(run).details.row(3)
    assert row["near"] is None
    assert len(row["others"]) >= 8


def test_a_run_without_an_error_rate_says_how_to_give_one(run, tmp_path):
    from kspr import SPR
    from kspr.runs.run import load_run, save_run

    made = load_run(run)
    plain = SPR(0.7).fit(made.features(), made.selection.label).selection_
    save_run(tmp_path / "spr", plain, made.rows, made.origin, overwrite=False)
    with pytest.raises(InputError, match="Give one with --q"):
        Session(tmp_path / "spr", Settings())
    draw = set_draw(tmp_path / "spr", n=5, q=0.1)
    assert len(draw.positions) == 5
    fitted = Selection.load(tmp_path / "spr", answers=False)
    assert read_checks(tmp_path / "spr", fitted) == draw


@pytest.fixture
def session(run, opened):
    return opened(run, checks=40)


def positions(session, reviewer="Anna", **filters):
    suspects, found = Suspects(session), []
    while True:
        page = suspects.page(Filters(**filters), reviewer, len(found))
        found += [row["position"] for row in page["rows"]]
        if len(found) >= page["total"]:
            return found


def test_suspects_come_worst_first_without_rows_of_the_draw(session):
    found = positions(session)
    suspicion = session.fitted.suspicion[found]
    assert (np.diff(suspicion) <= 0).all()
    # Kept or not: a large error rate keeps labels that are probably wrong.
    doubted = ~session.fitted.clean_mask | (session.fitted.doubt > 0.5)
    assert set(found) == set(np.flatnonzero(doubted)) - set(session.checks.positions)


def test_suspects_are_the_rows_outside_of_the_cut_once_all_checks_are_done(run, opened, truth):
    # So small an error rate that the checks move the cut below the doubts that are always shown.
    session = opened(run, checks=40, q=0.02)
    before = positions(session)
    for position in session.checks.positions:
        assert positions(session) == before
        session.answer("Anna", "check", {position: truth[position]})
    kept = apply_checks(session.fitted, session.checks).clean_mask
    shown = ~kept | (session.fitted.doubt > 0.5)
    assert set(positions(session)) == set(np.flatnonzero(shown)) - set(session.checks.positions)
    assert positions(session) != before


def test_filters_narrow_what_is_shown(session):
    every = positions(session, every=True)
    assert len(every) == 600 - 40
    for name in ("given", "suggested"):
        found = positions(session, every=True, **{name: 3})
        assert set(found) == {p for p in every if getattr(session.details, name)[p] == 3}
    doubtful = positions(session, doubt=0.9)
    assert doubtful
    assert (session.fitted.doubt[doubtful] >= 0.9).all()


def test_the_search_covers_all_rows_in_any_case(session):
    wanted = next(p for p in range(599, 0, -1) if p not in session.checks.positions)
    assert positions(session, every=True, text=f"DIGIT-{wanted:03d} ") == [wanted]
    assert positions(session, every=True, text="nowhere") == []


def test_answered_rows_leave_the_list_for_who_answered_them(session):
    first = positions(session)[0]
    session.answer("Anna", "fix", {first: "-"})
    assert first not in positions(session)
    assert positions(session, answered=True) == [first]
    assert first in positions(session, "Ben")
    page = Suspects(session).page(Filters(answered=True), "Anna", 0)
    assert page["rows"][0]["answer"] == "-"
    session.undo("Anna", "fix")
    assert first in positions(session)


def test_rows_of_a_plan_come_after_the_draw_each_to_one_person(run, opened, truth, tmp_path):
    session = opened(run, checks=60, drawn="all")
    for position in session.checks.positions:
        session.answer("Anna", "check", {position: truth[position]})
    for position in left(session, queue="repeat"):
        session.answer("Anna", "repeat", {position: truth[position]})
    assert left(session, queue="plan") == []
    written = write_plan(run, tmp_path / "plan.csv", max_wrong=0.25, confidence=0.9)
    rows = written.rows.tolist()
    assert len(rows) > 50
    assert left(session, queue="plan") == rows
    with pytest.raises(InputError, match="not your next row"):
        session.answer("Anna", "plan", {rows[1]: truth[rows[1]]})
    # Anna looks at the first six; Ben, who has the draw before him, gets others.
    assert left(session, "Ben", "plan") == rows[6:]
    session.answer("Anna", "plan", {rows[0]: truth[rows[0]]})
    assert left(session, queue="plan") == rows[1:]
    assert session.undo("Anna", "check") == [rows[0]]
    for position in rows:
        session.answer("Anna", "plan", {position: truth[position]})
    assert left(session, queue="plan") == left(session, "Cleo", "plan") == []
    now = session.progress.now(session.checks, session.plan)
    assert (now["plan"]["done"], now["plan"]["total"], now["picked"]) == (len(rows), len(rows), 0)
    assert "At most 150 wrong labels are in the finished data set" in now["plan"]["says"]
    found = Selection.load(run)
    finished = np.where(found.label_code == truth, 0, 1)
    finished[found.checked.rows] = 0
    assert finished.sum() <= 150
    # A longer draw puts the plan off until it is done.
    assert opened(run, checks=70).plan is None
