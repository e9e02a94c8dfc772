"""Histograms, and what other levels would keep."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from kspr._figures import drawn
from kspr.errors import InputError
from kspr.report._page import noise_figure
from kspr.report.contents import count, level
from kspr.report.plots import (
    LEVELS,
    dial,
    draw_curve,
    draw_doubt,
)
from kspr.selectors.verdict import estimated_share


def doubt_figure(selection):
    return drawn("d", "Doubt", (390, 240), draw_doubt, selection)


def curve_figure(selection, truth):
    return drawn("c", "Curve", (390, 240), draw_curve, selection, truth)


def test_drawing_leaves_the_users_settings_alone(shares):
    import matplotlib as mpl

    with mpl.rc_context({"font.size": 23, "text.color": "#ff0000"}):
        first = doubt_figure(shares)
        assert mpl.rcParams["font.size"] == 23
    assert first == doubt_figure(shares)
    assert "#ff0000" not in first


def test_a_notebook_gets_the_axes_that_it_gave_and_its_own_colours(chosen):
    import matplotlib as mpl

    _, (one, two, three) = plt.subplots(1, 3)
    with mpl.rc_context({"axes.prop_cycle": mpl.cycler(color=["#123456", "#654321"])}):
        assert chosen.plot.doubt(one) is one
        assert chosen.plot.curve(two) is two
        assert chosen.plot.confusion(three) is three
        assert two.lines[0].get_color() == "C0"
    assert len(one.patches) >= 2
    assert three.get_xlabel() == "label given"
    plt.close("all")


def test_suspects_are_shown_worst_first_with_both_labels(chosen, digits40):
    axes = chosen.plot.suspects(digits40.X.reshape(-1, 8, 8), n=4)
    titles = [each.get_title() for each in axes.ravel()]
    rows = chosen.suspect_indices[:4]
    assert titles == [f"{chosen.label[k]}\n→ {chosen.suggested_label[k]}" for k in rows]
    shown = axes.ravel()[0].images[0].get_array()
    assert np.array_equal(shown, digits40.X[rows[0]].reshape(8, 8))
    with pytest.raises(InputError, match="images has 3 pictures but the selection has"):
        chosen.plot.suspects(digits40.X[:3])
    for other in (digits40.X, ["a text"] * len(chosen)):
        with pytest.raises(InputError, match=r"is no picture: .*selection.report"):
            chosen.plot.suspects(other)
    plt.close("all")


def test_a_figure_without_its_numbers_is_refused(shares):
    with pytest.raises(InputError, match="needs an error rate"):
        shares.plot.curve()
    with pytest.raises(InputError, match="needs an estimate of the noise"):
        shares.plot.confusion()


def test_figures_are_small_and_rasterise_nothing(chosen):
    figures = [
        doubt_figure(chosen),
        curve_figure(chosen, None),
        curve_figure(chosen, chosen.label),
        noise_figure(chosen),
    ]
    for figure in figures:
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
        assert shown[3] == spaced(level(estimated_share(other)))


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
    assert curve_figure(chosen, None).count("<path") < curve_figure(chosen, chosen.label).count(
        "<path"
    )
