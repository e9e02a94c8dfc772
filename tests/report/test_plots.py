"""Histograms, the solution path, and what other levels would keep."""

import numpy as np

from kspr.report._noise import describe
from kspr.report._plots import (
    LEVELS,
    class_histograms,
    dial,
    dial_figure,
    histogram,
    path_figure,
    path_rows,
    solve_path,
)
from kspr.report._words import count, level


def test_drawing_leaves_the_users_settings_alone(shares):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 23, "text.color": "#ff0000"}):
        drawn = histogram(shares)
        assert mpl.rcParams["font.size"] == 23
    assert drawn == histogram(shares)
    assert "#ff0000" not in drawn


def test_the_path_piece_is_small_and_balanced(chosen):
    rows = path_rows(chosen)
    _, sizes = np.unique(chosen.label[rows], return_counts=True)
    assert len(rows) == 120
    assert set(sizes.tolist()) == {12}


def test_suspects_leave_zero_before_kept_rows(chosen, digits40):
    rows = path_rows(chosen)
    _, norms = solve_path(chosen, digits40.X, rows)
    entered = (norms > 0).argmax(axis=0)
    kept = chosen.clean_mask[rows]
    assert np.median(entered[~kept]) < np.median(entered[kept])


def test_figures_are_small_and_rasterise_nothing(chosen, digits40):
    drawn = [
        histogram(chosen),
        dial_figure(chosen, None),
        dial_figure(chosen, chosen.label),
        describe(chosen.noise).figure,
        path_figure(chosen, digits40.X),
        *(svg for _, svg in class_histograms(chosen)),
    ]
    for figure in drawn:
        assert len(figure) < 100_000
        assert "<image" not in figure
        assert "font-family" not in figure
        assert "var(--" in figure
        assert "#0" not in figure.replace('"#', "")


def spaced(text: str) -> str:
    return text.replace("\u202f", " ")


def test_the_dial_shows_what_other_levels_keep(chosen, write):
    rows = {cells[0]: cells for cells in write(chosen).table("levels")}
    for q in (0.02, 0.05, 0.2):
        other = chosen.at(q)
        shown = rows[spaced(level(q))]
        assert shown[1] == count(int(other.clean_mask.sum()))
        assert shown[-1] == count(int((other.cut_groups.status == "empty").sum()))


def test_a_larger_level_keeps_no_less(chosen, digits40):
    steps = dial(chosen, chosen.label)
    assert [step.q for step in steps] == sorted({*LEVELS, 0.05})
    kept = [step.n_kept for step in steps]
    assert kept == sorted(kept)
    assert all(step.share == step.n_kept / len(chosen) for step in steps)
    # Held against its own labels, nothing is wrong.
    assert {step.measured for step in steps} <= {0.0, None}


def test_the_level_asked_for_is_on_the_dial(exchangeable):
    q = float(exchangeable.cut_groups.q_asked[0])
    (step,) = [step for step in dial(exchangeable, None) if step.q == q]
    assert step.n_kept == exchangeable.clean_mask.sum()
    assert step.measured is None


def test_the_true_share_is_drawn_only_where_it_is_known(chosen):
    assert dial_figure(chosen, None).count("<path") < dial_figure(chosen, chosen.label).count(
        "<path"
    )
