"""Histograms and the solution path."""

import numpy as np

from kspr.report._dial import dial_figure
from kspr.report._noise import describe
from kspr.report._plots import class_histograms, histogram, path_figure, path_rows, solve_path


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
        *(entry.svg for entry in class_histograms(chosen)),
    ]
    for figure in drawn:
        assert len(figure) < 100_000
        assert "<image" not in figure
        assert "font-family" not in figure
        assert "var(--" in figure
        assert "#0" not in figure.replace('"#', "")
