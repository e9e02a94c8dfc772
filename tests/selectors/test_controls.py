"""All controls: what each keeps, refuses, and says that it assumes."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, PaperKnockoffsSPR, selection_quality
from tests.selectors.simulated import (
    KINDS,
    Kind,
    assert_within,
    by_control,
    gaussian,
    realised,
    symmetric,
)

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
    selection = by_control(q=0.2, control=control, cut=cut).fit(data.X, y).selection_
    # Only a label that lost has no place in the order: no cut keeps it.
    assert np.isfinite(selection.doubt).all() or control != "transition"
    assert not np.isnan(selection.doubt).any()
    assert selection.summary().per_class[3].n == 3


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        (
            {"control": "exchangeable", "neighbours": 9},
            "neighbours=9 goes with control='people' or 'transition', which estimate how many",
        ),
        ({"control": "exchangeable", "level": "f1"}, "not with 'exchangeable'. Change either."),
        ({"control": "paper"}, "Use PaperKnockoffsSPR, or the preset 'paper'."),
        ({"control": "theorem"}, "Use PaperKnockoffsSPR, or the preset 'paper'."),
    ],
    ids=str,
)
def test_a_choice_that_the_control_would_not_look_at_is_refused(digits40, choice, sentence):
    with pytest.raises(InputError) as caught:
        KnockoffsSPR(**choice).fit(digits40.X, digits40.y)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["sym 20", "sym 40", "uneven, sym 30"])
def test_exchange_keeps_its_rate_under_even_noise(kind):
    """Mean FSR over 24 draws is below q + 2 standard errors at 0.05, 0.1 and 0.2."""
    fsr, recall = realised(KINDS[kind], control="exchangeable")
    assert_within(fsr)
    assert recall.mean(axis=0)[2] > 0.7


@pytest.mark.parametrize("c", [3, 5, 7])
def test_exchange_works_with_odd_numbers_of_classes(c):
    data = gaussian(0, Kind(np.full(c, 1 / c), symmetric(c, 0.1)))
    selection = KnockoffsSPR(q=0.1, control="exchangeable").fit(data.X, data.y).selection_
    quality = selection_quality(selection.clean_mask, data.right)
    assert quality.fsr <= 0.1
    assert quality.recall > 0.7


def test_exchange_says_that_it_does_not_cover_two_classes(blobs):
    two = blobs.y < 2
    with pytest.raises(InputError, match=r"needs at least three classes, got 2") as caught:
        KnockoffsSPR(q=0.1, control="exchangeable").fit(blobs.X[two], blobs.y[two])
    assert "\n" not in str(caught.value)


def test_a_fallback_exists_under_the_papers_controls_only():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    for control in ("transition", "exchangeable"):
        cut_groups = KnockoffsSPR(q=0.02, control=control).fit(X, y).selection_.cut_groups
        assert set(cut_groups.status) == {"empty"}
    for control in ("paper", "theorem"):
        model = PaperKnockoffsSPR(control=control).fit(X, y)
        assert "fallback" in model.selection_.cut_groups.status


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_selection_names_its_control_and_repeats_its_assumption(digits40, control):
    selection = by_control(q=0.1, control=control).fit(digits40.X, digits40.y).selection_
    assert selection.control == control
    assert selection.assumption.endswith(".")
    assert selection.assumption in " ".join(str(selection.summary()).split())
    assert (selection.noise is None) == (control in ("paper", "theorem"))
    if selection.noise is not None:
        assert str(selection.noise) in " ".join(str(selection.summary()).split())
