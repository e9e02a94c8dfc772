"""All controls: what each keeps, refuses, and says that it assumes."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, PaperKnockoffsSPR
from tests.selectors.simulated import Kind, gaussian, symmetric

DRAWS = 24

EVEN = np.full(5, 0.2)


@pytest.mark.parametrize("control", ["transition", "exchangeable"])
def test_labels_that_say_nothing_are_not_kept(control):
    """At q = 0.1, of five classes drawn by lot: below 1 % of all over 24 draws."""
    kept = []
    for seed in range(DRAWS):
        data = gaussian(seed, Kind(EVEN, np.full((5, 5), 0.2)))
        model = KnockoffsSPR(q=0.1, control=control).fit(data.X, data.y)
        kept.append(model.selection_.clean_mask.mean())
    assert np.mean(kept) < 0.01


@pytest.mark.parametrize("control", ["transition", "exchangeable"])
def test_labels_without_errors_are_kept(control):
    for seed in range(5):
        data = gaussian(seed, Kind(EVEN, np.eye(5)))
        selection = KnockoffsSPR(q=0.05, control=control).fit(data.X, data.y).selection_
        assert selection.clean_mask.mean() > 0.98
        assert selection.noise.rate < 0.02


@pytest.mark.parametrize("cut", ["per_class", "pooled"])
@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper"])
def test_a_class_of_three_is_judged(control, cut):
    data = gaussian(0, Kind(np.full(4, 0.25), symmetric(4, 0.2)), n=400)
    y = np.where(data.y == 3, 0, data.y)
    y[:3] = 3
    selection = KnockoffsSPR(q=0.2, control=control, cut=cut).fit(data.X, y).selection_
    assert np.isfinite(selection.doubt).all()
    assert selection.summary().per_class[3].n == 3


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"knockoff": "random"}, "knockoff='random' goes with control='paper' or 'theorem'"),
        ({"statistic": "symmetric_min"}, "statistic='symmetric_min' goes with control='paper'"),
        ({"level": "smallest"}, "level='smallest' goes with control='paper' or 'theorem'"),
        (
            {"control": "exchangeable", "knockoff": "random"},
            "not with 'exchangeable'. Change either.",
        ),
        ({"remove_floor": True}, "remove_floor goes with control='exchangeable'"),
        ({"control": "paper", "remove_floor": True}, "remove_floor goes with"),
        ({"control": "paper", "n_splits": 3}, "n_splits=3 goes with control='transition' or"),
        ({"control": "theorem", "n_splits": 2}, "n_splits=2 goes with"),
        ({"control": "paper", "neighbours": 9}, "neighbours=9 goes with control='transition'"),
        ({"neighbours": 9, "samples_per_class": 40}, "Pass samples_per_class=None."),
        (
            {"classes_per_group": 5},
            "control='transition' needs all 10 classes in one group, but classes_per_group is 5.",
        ),
        ({"control": "exchangeable", "classes_per_group": 2}, "needs all 10 classes in one group"),
    ],
    ids=str,
)
def test_a_choice_that_the_control_would_not_look_at_is_refused(digits40, choice, sentence):
    with pytest.raises(InputError) as caught:
        KnockoffsSPR(**choice).fit(digits40.X, digits40.y)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_groups_as_large_as_the_classes_are_no_groups(digits40):
    whole = KnockoffsSPR().fit(digits40.X, digits40.y).selection_
    grouped = KnockoffsSPR(classes_per_group=10).fit(digits40.X, digits40.y).selection_
    assert np.array_equal(whole.q_value, grouped.q_value)


def test_a_fallback_exists_under_the_papers_controls_only():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    for control in ("transition", "exchangeable"):
        cut_groups = KnockoffsSPR(q=0.02, control=control).fit(X, y).selection_.cut_groups
        assert set(cut_groups.status) == {"empty"}
    for control in ("paper", "theorem"):
        model = PaperKnockoffsSPR(control=control).fit(X, y)
        assert "fallback" in model.selection_.cut_groups.status


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_selection_names_its_control_and_repeats_its_assumption(digits40, control):
    selection = KnockoffsSPR(q=0.1, control=control).fit(digits40.X, digits40.y).selection_
    assert selection.control == control
    assert selection.assumption.endswith(".")
    assert f"Assumed: {selection.assumption}" in str(selection.summary())
    assert (selection.noise is None) == (control in ("paper", "theorem"))
    if selection.noise is not None:
        assert str(selection.noise) in str(selection.summary())
