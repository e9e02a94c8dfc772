"""What answers come to: the same numbers as the library's, and sentences that promise no more."""

from dataclasses import replace

import numpy as np
import pytest

from kspr._text import percent
from kspr.review.page_data import Progress
from kspr.runs.checks import apply_checks
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
    now, selection = asked(100)
    assert (now["done"], now["total"], now["final"]) == (100, 100, True)
    assert now["people"] == [("Anna", 100)]
    assert now["kept"] == int(selection.clean_mask.sum())
    assert now["n_wrong"] == int((~selection.checked.right).sum())
    kept = dict(now["levels"])
    assert kept[0.2] == int((selection.q_value <= 0.2).sum())
    assert len(now["picture"]["checks"]) == 100
    assert now["picture"]["cut"] == pytest.approx(selection.clean_mask.mean())


@pytest.mark.parametrize("n", [1, 17, 99])
def test_before_all_checks_are_done_the_threshold_without_checks_is_shown(asked, n):
    """From a few answers it would jump, and say that nothing can be kept."""
    now, _ = asked(n)
    assert not now["final"]
    assert now["kept"] == asked(0)[0]["kept"] > 300
    assert now["verdict"] == f"{now['n_wrong']} wrong so far."
    assert now["levels"] == []
    assert "set a new threshold when all are done" in now["promise"]


def test_every_step_of_the_slider_keeps_more_rows(asked):
    """Beyond what the checks were drawn from there is nothing to keep, at whatever rate."""
    now, selection = asked(100)
    levels, kept = zip(*now["levels"], strict=True)
    assert 0.2 in levels
    changed = [k for level, k in zip(levels, kept, strict=True) if level != 0.2]
    assert changed == sorted(set(changed))
    assert max(kept) <= now["most"] == np.isfinite(selection.q_value).sum()


def test_second_answers_show_how_sure_a_person_is(run, truth):
    draw = set_draw(run, n=100)
    fitted = load_run(run).selection
    names = [str(name) for name in fitted.classes]
    said = entries(draw, truth, names, 10)
    again = tuple(replace(e, number=100 + k, queue="repeat") for k, e in enumerate(said))
    other = (*again[:8], *(replace(e, answer="-") for e in again[8:]))
    now = Progress(fitted).now(replace(draw, log=(*said, *other)))
    assert [(a["other"], a["share"]) for a in now["agreement"]] == [("Anna, asked again", 0.8)]
    assert (now["done"], now["to_settle"], now["unsettled"]) == (10, 2, 2)


def test_nothing_is_promised_before_the_number_that_was_set(asked):
    assert asked(0)[0]["verdict"] == "No row is checked yet."
    assert "rests on an assumption" in asked(0)[0]["promise"]
    done, selection = asked(100)
    assert done["promise"].startswith(selection.assumption)
    # What it is worth where people err.
    assert "5 % of the answers let a wrong label pass, up to 25 % of the kept" in done["promise"]
    assert done["verdict"].startswith("Done. ")


def test_anytime_holds_at_every_moment(asked):
    now, selection = asked(40, guarantee="anytime", q=0.3)
    assert now["promise"].startswith(selection.assumption)
    assert "whenever you stop" in now["promise"]


def test_a_level_that_is_not_reached_says_so_and_what_it_takes(asked):
    now, _ = asked(4, checks=4)
    assert now["verdict"].startswith("20 % is not reached with 4 checks")
    assert asked(2)[0]["expected"].startswith(("About", "More than"))
    now, selection = asked(100)
    kept = int(selection.clean_mask.sum())
    assert now["verdict"] == f"Done. You can keep {kept} of 600 labels at 20 %."
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
    assert "can be expected to keep" in now["expected"]


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
