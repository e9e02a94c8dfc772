"""Presets: which selector a name stands for, and which parameters it takes."""

import pytest

from kspr import SPR, InputError, KnockoffsSPR, PaperKnockoffsSPR, ProbabilitySelector
from kspr.selectors import SelectorOptions, from_options, from_preset, of_kind


def test_a_name_stands_for_a_selector_with_its_own_defaults():
    assert from_preset("default").get_params() == KnockoffsSPR().get_params()
    assert from_preset("paper").get_params() == PaperKnockoffsSPR().get_params()
    assert from_preset("spr").get_params() == SPR().get_params()
    assert type(from_preset("spr")) is SPR


def test_changes_win_over_the_preset():
    assert from_preset("paper", q=0.3, samples_per_class=None).get_params() == {
        **PaperKnockoffsSPR().get_params(),
        "q": 0.3,
        "samples_per_class": None,
    }


@pytest.mark.parametrize(
    ("name", "changes", "sentence"),
    [
        ("odd", {}, "preset must be one of 'default', 'paper', 'spr', got 'odd'."),
        ("default", {"quality": 1}, "KnockoffsSPR has no parameter 'quality'; it has q, level,"),
        ("spr", {"quality": 1}, "SPR has no parameter 'quality'; it has clean_ratio, penalty,"),
        ("spr", {"q": 0.1}, "q goes with the preset 'default' or 'paper', got 'spr'."),
        ("spr", {"level": "f1"}, "level goes with the preset 'default' or 'paper', got 'spr'."),
        ("paper", {"n_splits": 2}, "n_splits goes with the preset 'default', got 'paper'."),
        ("default", {"penalty": "lasso"}, "penalty goes with the preset 'paper' or 'spr', got"),
    ],
)
def test_what_a_preset_does_not_take_is_one_sentence(name, changes, sentence):
    with pytest.raises(InputError) as caught:
        from_preset(name, **changes)
    assert str(caught.value).startswith(sentence)


def test_options_choose_the_same_selector_as_a_preset():
    chosen = SelectorOptions(preset="paper", q=0.1, dimensions=5, seed=3)
    expected = PaperKnockoffsSPR(q=0.1, reduction=5, random_state=3)
    assert from_options(chosen).get_params() == expected.get_params()
    assert from_options(SelectorOptions()).get_params() == KnockoffsSPR().get_params()


def test_options_that_probabilities_do_not_have_are_refused():
    assert of_kind(ProbabilitySelector, SelectorOptions(cut="per_class", seed=3)).cut == "per_class"
    with pytest.raises(InputError, match="reduction goes with features"):
        of_kind(ProbabilitySelector, SelectorOptions(dimensions=8))
    with pytest.raises(InputError, match="preset goes with features"):
        of_kind(ProbabilitySelector, SelectorOptions(preset="paper"))
