"""Each control's error rate where its assumption holds by construction."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from tests.selectors.simulated import KINDS, Kind, gaussian, symmetric

from kspr import InputError, KnockoffsSPR, Selection, selection_quality
from kspr.core.noise import symmetric as flip_evenly

LEVELS = np.array([0.05, 0.1, 0.2])
DRAWS = 24
EVEN = np.full(5, 0.2)


def realised(kind: Kind, **choice: object) -> tuple[np.ndarray, np.ndarray]:
    """Return FSR and recall, ``(draws, levels)``."""
    answers = []
    for seed in range(DRAWS):
        data = gaussian(seed, kind)
        selection = KnockoffsSPR(**choice).fit(data.X, data.y).selection_
        found = [selection_quality(selection.at(q).clean_mask, data.right) for q in LEVELS]
        answers.append([(quality.fsr, quality.recall) for quality in found])
    return tuple(np.moveaxis(np.array(answers), 2, 0))


def assert_within(fsr: np.ndarray) -> None:
    error = fsr.std(axis=0, ddof=1) / np.sqrt(DRAWS)
    assert (fsr.mean(axis=0) <= LEVELS + 2 * error).all(), (fsr.mean(axis=0), error)


# --- Transition -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_transition_keeps_its_rate_under_noise_that_depends_on_the_class(kind):
    """Mean FSR over 24 draws of 1,500 is below q + 2 standard errors at 0.05, 0.1 and 0.2; at
    0.1 most right labels are kept.
    """
    fsr, recall = realised(KINDS[kind])
    assert_within(fsr)
    assert recall.mean(axis=0)[1] > 0.85


def test_transition_keeps_its_rate_over_all_classes_when_pooled():
    """The same budget, for the rate that a pooled cut speaks of."""
    fsr, recall = realised(KINDS["varied"], cut="pooled")
    assert_within(fsr)
    assert recall.mean(axis=0)[1] > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_the_transition_matrix_is_close_to_the_one_that_made_the_noise(kind):
    """6,000 samples, 36 to 72 anchors a class and half, 10 draws: the mean matrix is within 0.05
    of the truth, single entries are within 0.2.
    """
    truth, found = KINDS[kind].matrix, []
    for seed in range(10):
        data = gaussian(seed, KINDS[kind], n=6000)
        found.append(KnockoffsSPR().fit(data.X, data.y).selection_.noise.transition)
    assert np.abs(np.mean(found, axis=0) - truth).max() < 0.05
    assert np.abs(np.array(found) - truth).max() < 0.2


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
    assert np.isfinite(selection.statistic).all()
    assert selection.summary().per_class[3].n == 3


def test_the_noise_is_told_with_intervals_around_it():
    data = gaussian(1, KINDS["pairs 20"])
    noise = KnockoffsSPR().fit(data.X, data.y).selection_.noise
    assert (noise.low <= noise.transition).all()
    assert (noise.transition <= noise.high).all()
    assert noise.rate_interval[0] <= noise.rate <= noise.rate_interval[1]
    assert noise.anchors.shape == noise.classes.shape == (5,)
    assert str(noise).startswith("About ")


# --- Exchangeable -----------------------------------------------------------------------------


@pytest.mark.parametrize("remove_floor", [False, True])
@pytest.mark.parametrize("kind", ["sym 20", "sym 40", "uneven, sym 30"])
def test_exchange_keeps_its_rate_under_even_noise(kind, remove_floor):
    """Mean FSR over 24 draws is below q + 2 standard errors at 0.05, 0.1 and 0.2."""
    fsr, recall = realised(KINDS[kind], control="exchangeable", remove_floor=remove_floor)
    assert_within(fsr)
    assert recall.mean(axis=0)[2] > 0.7


@pytest.mark.parametrize("c", [3, 5, 7])
def test_exchange_works_with_odd_numbers_of_classes(c):
    data = gaussian(0, Kind(np.full(c, 1 / c), symmetric(c, 0.1)))
    selection = KnockoffsSPR(q=0.1, control="exchangeable").fit(data.X, data.y).selection_
    quality = selection_quality(selection.clean_mask, data.right)
    assert quality.fsr <= 0.1
    assert quality.recall > 0.7


def test_taking_off_the_floor_never_keeps_less(digits40):
    model = KnockoffsSPR(control="exchangeable")
    plain = model.fit(digits40.X, digits40.y).selection_
    removed = model.set_params(remove_floor=True).fit(digits40.X, digits40.y).selection_
    for q in (0.05, 0.1, 0.2):
        assert (removed.at(q).clean_mask >= plain.at(q).clean_mask).all()
    assert removed.at(0.1).clean_mask.sum() > plain.at(0.1).clean_mask.sum()


# --- Several splits ---------------------------------------------------------------------------


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    return np.sum(one & other) / np.sum(one | other)


def test_more_splits_make_the_answer_depend_less_on_the_seed(digits40):
    """Kept sets of three seeds, pair by pair: five splits share more of them than one."""

    def shared(n_splits: int) -> float:
        masks = [
            KnockoffsSPR(q=0.1, n_splits=n_splits, random_state=seed)
            .fit(digits40.X, digits40.y)
            .selection_.clean_mask
            for seed in range(3)
        ]
        return np.mean([overlap(masks[a], masks[b]) for a, b in ((0, 1), (0, 2), (1, 2))])

    assert shared(5) > shared(1) + 0.01


@pytest.mark.parametrize("n_splits", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_combined_splits_keep_their_rate(n_splits):
    """Mean FSR over 24 draws at q = 0.1 is below q + 2 standard errors."""
    fsr, recall = [], []
    for seed in range(DRAWS):
        data = gaussian(seed, KINDS["sym 40"])
        selection = KnockoffsSPR(q=0.1, n_splits=n_splits).fit(data.X, data.y).selection_
        quality = selection_quality(selection.clean_mask, data.right)
        fsr.append(quality.fsr)
        recall.append(quality.recall)
    assert np.mean(fsr) <= 0.1 + 2 * np.std(fsr) / np.sqrt(DRAWS)
    assert np.mean(recall) > 0.8


# --- What a control does not look at, it refuses ------------------------------------------------


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
        (
            {"classes_per_group": 5},
            "control='transition' must see all 10 classes together, but classes_per_group is 5.",
        ),
        ({"control": "exchangeable", "classes_per_group": 2}, "must see all 10 classes together"),
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


# --- A level out of reach -----------------------------------------------------------------------


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_level_out_of_reach_is_empty_and_says_what_would_help(digits40, control):
    model = KnockoffsSPR(q=0.001, control=control).fit(digits40.X, digits40.y)
    selection: Selection = model.selection_
    assert not selection.clean_mask.any()
    assert set(selection.cut_groups.status) == {"empty"}, "no fallback that was not asked for"
    assert np.isnan(selection.cut_groups.q_reached).all()
    assert (selection.cut_groups.smallest_q > 0.001).all()
    advice = selection.summary().advice
    assert "would" in advice
    assert "checked=" in advice
    assert advice in str(selection.summary())
    reachable = selection.at(float(selection.cut_groups.smallest_q.max()))
    assert set(reachable.cut_groups.status) == {"controlled"}
    assert reachable.summary().advice is None


def test_the_advised_level_reaches_every_cell(digits40):
    selection = KnockoffsSPR(q=0.001).fit(digits40.X, digits40.y).selection_
    advice = selection.summary().advice
    level = float(advice.split("q = ")[1].split(" ")[0])
    assert set(selection.at(level).cut_groups.status) == {"controlled"}


def test_a_fallback_exists_under_the_papers_controls_only():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    for control in ("transition", "exchangeable"):
        cut_groups = KnockoffsSPR(q=0.02, control=control).fit(X, y).selection_.cut_groups
        assert set(cut_groups.status) == {"empty"}
    for control in ("paper", "theorem"):
        model = KnockoffsSPR.paper(control=control).fit(X, y)
        assert "fallback" in model.selection_.cut_groups.status


# --- What it says of itself ---------------------------------------------------------------------


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper", "theorem"])
def test_a_selection_names_its_control_and_repeats_its_assumption(digits40, control):
    selection = KnockoffsSPR(q=0.1, control=control).fit(digits40.X, digits40.y).selection_
    assert selection.control == control
    assert selection.assumption.endswith(".")
    assert f"Assumed: {selection.assumption}" in str(selection.summary())
    assert (selection.noise is None) == (control in ("paper", "theorem"))
    if selection.noise is not None:
        assert str(selection.noise) in str(selection.summary())


@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_the_estimated_noise_of_digits_is_near_the_one_that_was_made(rate):
    """Over 20 seeds the error is .02 +- .03: the mean of ten is within 0.04, and at most three of
    their intervals of 95 % miss.
    """
    X, y = load_digits(return_X_y=True)
    errors, missed = [], 0
    for seed in range(10):
        noisy = flip_evenly(y, rate, seed=seed)
        noise = KnockoffsSPR().fit(X, noisy).selection_.noise
        errors.append(noise.rate - np.mean(noisy != y))
        missed += not noise.rate_interval[0] <= np.mean(noisy != y) <= noise.rate_interval[1]
    assert abs(np.mean(errors)) < 0.04
    assert missed <= 3
