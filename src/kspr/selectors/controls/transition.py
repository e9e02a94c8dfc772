"""The control for noise that depends on the true class only."""

import numpy as np

from kspr.core.chances import Chances, calibration_rows
from kspr.core.coded import coded, doubts
from kspr.core.grading import Graded, Grading
from kspr.core.intervals import wilson_interval
from kspr.core.transition import AnyTransition, Transition, estimate_transition, wrong_share
from kspr.core.votes import with_votes
from kspr.selectors._passes import put, small_codes
from kspr.selectors.controls.control import Decision, Question, whole_cut_groups
from kspr.selectors.controls.noise_estimate import NoiseEstimate

__all__ = ["describe_noise", "graded_rows", "transition"]


def transition(question: Question) -> Decision:
    """Return the decision from the estimated noise: the wrong labels below every cut follow."""
    codes, predictions = question.codes, question.all_classes.predictions
    noise = estimate_transition(question.all_classes.anchors)
    chosen = calibration_rows(len(codes), len(question.classes))
    chances = Chances.fit(predictions.values(chosen), codes[chosen], noise)
    grading = Grading(noise, len(codes), pooled=question.pooled)

    def judged(rows: slice, prediction: np.ndarray) -> tuple[Graded, dict[str, np.ndarray]]:
        right = chances.right(prediction)
        if question.votes is not None:
            right = with_votes(right, question.votes[rows], noise, question.neighbours)
        return graded_rows(prediction, right, codes[rows], chances, grading)

    counts, columns = grading.no_counts(), dict[str, np.ndarray]()
    for rows, (graded, found) in predictions.map(judged, "Grading rows"):
        counts.add(graded)
        put(columns, rows, found, len(codes))
    levels = grading.levels(counts)
    level = coded(levels.places(columns.pop("grade"), codes), levels.table)
    cut_group, table = whole_cut_groups(question)
    described = describe_noise(noise, question.sizes, question.classes)
    doubt = doubts(columns["right"])
    return Decision(level, doubt, cut_group, table, columns["best"], described, columns["chance"])


def graded_rows(
    prediction: np.ndarray,
    right: np.ndarray,
    label: np.ndarray,
    chances: Chances,
    grading: Grading,
) -> tuple[Graded, dict[str, np.ndarray]]:
    """Return what a block of rows adds to the counts, and its columns.

    `right` are the chances of all classes to be right as the label, by the fitted values
    `prediction` and whatever else is known.
    """
    best, chance = chances.true_class(prediction, label)
    graded = grading.grade(right, label)
    return graded, {
        "grade": graded.own,
        "right": right[np.arange(len(label)), label],
        "chance": chance.astype(right.dtype),
        "best": small_codes(best, prediction.shape[1]),
    }


def describe_noise(
    transition: AnyTransition, sizes: np.ndarray, classes: np.ndarray
) -> NoiseEstimate:
    """Return a transition matrix with its intervals and the overall rate.

    `sizes` are the numbers of samples that have each label.
    """
    anchors = transition.counts.sum(axis=1)
    matrix = low = high = np.empty((0, 0))
    if isinstance(transition, Transition):
        matrix = transition.matrix
        ends = wilson_interval(transition.counts, anchors[:, None])
        # Shrinkage can move an entry out of the interval of its own anchors.
        low, high = np.minimum(ends[0], matrix), np.maximum(ends[1], matrix)
    rate, *interval = wrong_share(transition, sizes)
    return NoiseEstimate(
        rate=rate,
        rate_interval=(interval[0], interval[1]),
        transition=matrix,
        low=low,
        high=high,
        anchors=anchors.astype(np.int64),
        classes=classes,
    )
