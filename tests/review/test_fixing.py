"""The queue of suspects: order, filters, and a search over all rows."""

import numpy as np
import pytest

from kspr.review.fixing import Filters, Suspects
from kspr.runs.answers import apply_checks


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
    assert set(found) == set(np.flatnonzero(~session.fitted.clean_mask)) - set(
        session.checks.positions
    )


def test_suspects_are_the_rows_outside_of_the_cut_once_all_checks_are_done(session, truth):
    before = positions(session)
    for position in session.checks.positions:
        assert positions(session) == before
        session.answer("Anna", "check", {position: truth[position]})
    kept = apply_checks(session.fitted, session.checks).clean_mask
    assert set(positions(session)) == set(np.flatnonzero(~kept)) - set(session.checks.positions)
    assert positions(session) != before


def test_filters_narrow_what_is_shown(session):
    every = positions(session, every=True)
    assert len(every) == 600 - 40
    for name in ("given", "suggested"):
        found = positions(session, every=True, **{name: 3})
        assert set(found) == {p for p in every if getattr(session, name)[p] == 3}
    doubtful = positions(session, doubt=0.9)
    assert doubtful
    assert (session.fitted.statistic[doubtful] >= 0.9).all()


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
