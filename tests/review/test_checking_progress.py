"""What answers come to: the same numbers as the library's, and sentences that promise no more."""

from dataclasses import replace

import pytest

from kspr._text import percent
from kspr.review.checking_progress import Progress
from kspr.runs.answers import apply_checks
from kspr.runs.draws import set_draw
from kspr.runs.review_log import Entry
from kspr.runs.run import load_run


def entries(checks, truth, names, n, reviewer="Anna", number=0):
    return tuple(
        Entry(number + k + 1, number + k + 1, p, names[truth[p]], reviewer, "check", "t", None)
        for k, p in enumerate(checks.positions[:n])
    )


@pytest.fixture
def asked(run, truth):
    """Return what is said after `n` right answers of a draw of 100."""
    fitted = load_run(run).selection
    names = [str(name) for name in fitted.classes]

    def _asked(n, checks=100, **how):
        draw = set_draw(run, n=checks, **how)
        answered = replace(draw, log=entries(draw, truth, names, n))
        return Progress(fitted).now(answered), apply_checks(fitted, answered, unfinished=True)

    return _asked


def test_the_numbers_are_those_of_the_selection(asked):
    now, selection = asked(60)
    assert (now["done"], now["total"], now["complete"]) == (60, 100, False)
    assert now["kept"] == int(selection.clean_mask.sum())
    assert now["n_wrong"] == int((~selection.checked.right).sum())
    kept = dict(now["levels"])
    assert kept[0.2] == int((selection.q_value <= 0.2).sum())
    assert len(now["picture"]["checks"]) == 60
    assert now["picture"]["cut"] == pytest.approx(selection.clean_mask.mean())


def test_nothing_is_promised_before_the_number_that_was_set(asked):
    assert "No row is checked yet" in asked(0)[0]["promise"]
    assert "rests on an assumption" in asked(0)[0]["promise"]
    promise = asked(99)[0]["promise"]
    assert promise.startswith("Provisional: the promise is made for 100 checks")
    done, selection = asked(100)
    assert done["promise"] == selection.assumption
    assert done["complete"]


def test_anytime_holds_at_every_moment(asked):
    now, selection = asked(40, guarantee="anytime", q=0.3)
    assert now["promise"] == selection.assumption
    assert "whenever you stop" in now["promise"]


def test_a_level_that_is_not_reached_says_so_and_what_it_takes(asked):
    now, _ = asked(2)
    assert "is not reached yet" in now["level"] or now["level"] == "No level is reached yet."
    assert now["expected"].startswith(("About", "More than"))
    now, selection = asked(100)
    kept = int(selection.clean_mask.sum())
    assert now["level"].startswith(f"q = 20 % is reached, and keeps {kept} of 600 rows")
    found = selection.estimates()
    assert f"about {percent(found.recall.value)} are kept" in now["expected"]
    assert f"about {percent(found.fsr.value)} are wrong" in now["expected"]
    assert "can be expected to keep" in asked(90)[0]["expected"]


def test_more_checks_than_the_forecast_says_do_reach_the_level(asked):
    """The seeds are fixed, and so is the answer."""
    words = asked(0)[0]["expected"]
    needed = int(words.split()[1].replace(",", ""))
    assert 0 < needed < 200
    now, _ = asked(2 * needed, checks=400)
    assert "is reached" in now["level"]


def test_rows_that_people_differ_on_count_as_wrong(run, truth, asked):
    draw = set_draw(run, n=100)
    fitted = load_run(run).selection
    names = [str(name) for name in fitted.classes]
    other = [(code + 1) % 10 for code in truth]
    log = (*entries(draw, truth, names, 20), *entries(draw, other, names, 5, "Ben", 100))
    now = Progress(fitted).now(replace(draw, log=log))
    assert (now["done"], now["unsettled"], now["to_settle"]) == (20, 5, 5)
    assert now["n_wrong"] >= 5
    assert [(a["n"], a["share"]) for a in now["agreement"]] == [(5, 0.0)]
