"""What Knockoffs-SPR is told besides features and labels: scores, knockoffs, earlier selections."""

import numpy as np
import torch

from kspr import KnockoffsSPR, PaperKnockoffsSPR


def test_scores_choose_the_knockoff(blobs):
    rng = np.random.default_rng(0)
    scores = rng.random((360, 3))
    model = KnockoffsSPR(control="paper")
    chosen = model.fit(blobs.X, blobs.y, scores=scores).selection_.knockoff_label
    masked = np.where(np.eye(3, dtype=bool)[blobs.y], -1, scores)
    assert np.array_equal(chosen, masked.argmax(axis=1))
    tensor = model.fit(blobs.X, blobs.y, scores=torch.tensor(scores)).selection_
    assert np.array_equal(chosen, tensor.knockoff_label)


def test_scores_follow_their_classes_into_the_groups(digits40):
    scores = np.random.default_rng(0).random((len(digits40.y), 10))
    model = KnockoffsSPR(control="paper", classes_per_group=5, samples_per_class=50, reduction=10)
    selection = model.fit(digits40.X, digits40.y, scores=scores).selection_
    group = {}
    for label, knockoff in zip(selection.label, selection.knockoff_label, strict=True):
        group.setdefault(label, set()).add(knockoff)
    for label, others in group.items():
        assert label not in others
        rows = selection.label == label
        best = np.array(sorted(others))[scores[rows][:, sorted(others)].argmax(axis=1)]
        assert np.array_equal(selection.knockoff_label[rows], best)


def test_given_knockoffs_are_used_as_they_are(blobs):
    given = (blobs.y + 1) % 3
    model = KnockoffsSPR(control="paper", knockoff="given")
    model.fit(blobs.X, blobs.y, knockoff_labels=given)
    assert np.array_equal(model.selection_.knockoff_label, given)


def test_an_earlier_selection_sharpens_the_prototypes():
    # Classes 0 and 1 truly coincide, as do 2 and 3. Wrong rows drag the mean of class 1 away.
    rng = np.random.default_rng(0)
    centre = np.array([[9.0, 0], [9, 0], [0, 9], [0, 9]])
    y = np.repeat(np.arange(4), 60)
    X = centre[y] + 0.1 * rng.standard_normal((240, 2))
    wrong = np.zeros(240, bool)
    wrong[60:110] = True
    X[wrong] = [-40, 0]
    model = KnockoffsSPR(control="paper", classes_per_group=2, reduction=None)

    def partner(selection):
        return set(selection.knockoff_label[selection.label == 0])

    assert partner(model.fit(X, y).selection_) != {1}
    assert partner(model.fit(X, y, clean_mask=~wrong).selection_) == {1}


def test_the_paper_preset_is_the_designs_right_hand_column():
    chosen = PaperKnockoffsSPR().get_params()
    assert {
        "penalty": "group",
        "reduction": "classes",
        "classes_per_group": 10,
        "samples_per_class": 75,
        "first_step": "spr",
        "clean_ratio": 0.5,
        "knockoff": "most_confident",
        "statistic": "asymmetric",
        "cut": "per_class",
        "q": 0.02,
        "level": "smallest",
        "control": "paper",
    }.items() <= chosen.items()
    assert PaperKnockoffsSPR(q=0.1).q == 0.1
