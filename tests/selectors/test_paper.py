"""The procedure of the paper: what it is told, its levels, difficult data, and its refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from kspr import InputError, PaperKnockoffsSPR
from kspr.noise import symmetric
from kspr.selectors.paper import _smallest
from tests.core.paper.test_cutoffs import equation_t, random_groups, tied_groups
from tests.core.paper.test_procedure import times_by_the_path
from tests.selectors.simulated import as_selection, by_control

cases = st.one_of(tied_groups(), random_groups())
X = np.random.default_rng(0).standard_normal((60, 4))
Y = np.repeat([0, 1, 2], 20)


def test_scores_choose_the_knockoff(blobs):
    rng = np.random.default_rng(0)
    scores = rng.random((360, 3))
    model = by_control(control="paper")
    chosen = model.fit(blobs.X, blobs.y, scores=scores).selection_.knockoff_label
    masked = np.where(np.eye(3, dtype=bool)[blobs.y], -1, scores)
    assert np.array_equal(chosen, masked.argmax(axis=1))
    tensor = model.fit(blobs.X, blobs.y, scores=torch.tensor(scores)).selection_
    assert np.array_equal(chosen, tensor.knockoff_label)


def test_scores_follow_their_classes_into_the_groups(digits40):
    scores = np.random.default_rng(0).random((len(digits40.y), 10))
    model = by_control(control="paper", classes_per_group=5, samples_per_class=50, reduction=10)
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
    model = by_control(control="paper", knockoff="given")
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
    model = by_control(control="paper", classes_per_group=2, reduction=None)

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


def alg_1(W: np.ndarray, factor: Fraction) -> tuple[float, Fraction | None]:
    """Alg. 1, lines 4 to 7: raise q until something is selectable."""
    q, T, met = Fraction(2, 100), 0.0, None
    while q <= Fraction(1, 2) and T == 0:
        T = equation_t(W, factor * q)
        met = q if T > 0 else None
        q += Fraction(2, 100)
    return T, met


@settings(max_examples=40)
@drawn(
    case=cases,
    factor=st.sampled_from([Fraction(1), Fraction(1, 8), Fraction(1, 4), Fraction(1, 2)]),
)
def test_the_smallest_level_is_the_one_that_alg_1_stops_at(
    case: tuple[np.ndarray, np.ndarray, int], factor: Fraction
) -> None:
    """Group by group, with Theorem 2's factor on q; the better half where no level is reached."""
    W, cut_group, n_cut_groups = case
    selection = _smallest(as_selection(W, cut_group, n_cut_groups, float(factor)), W, 0.02)
    keep, cut_groups = selection.clean_mask, selection.cut_groups
    for k in range(n_cut_groups):
        own = W[cut_group == k]
        T, met = alg_1(own, factor)
        np.testing.assert_equal(cut_groups.q_reached[k], math.nan if met is None else float(met))
        if met is None:
            assert cut_groups.status[k] == "fallback"
            assert cut_groups.n_kept[k] == -(-len(own) // 2)
            assert cut_groups.estimated_fsr[k] == math.inf
        else:
            assert cut_groups.status[k] == ("assumed" if met == Fraction(1, 50) else "raised")
            np.testing.assert_array_equal(keep[cut_group == k], (own >= -T) & (own < 0))
            assert cut_groups.estimated_fsr[k] <= float(met)


def test_the_papers_rule_raises_the_level_and_marks_its_fallback():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((120, 5)), rng.integers(0, 4, 120)
    selection = PaperKnockoffsSPR().fit(X, y).selection_
    status, cut_groups = selection.cut_groups.status, selection.cut_groups
    assert set(status) <= {"raised", "fallback"}
    assert "fallback" in status
    fallen = status == "fallback"
    assert np.isnan(cut_groups.q_reached[fallen]).all()
    assert np.array_equal(cut_groups.n_kept[fallen], (cut_groups.n[fallen] + 1) // 2)
    assert (cut_groups.q_reached[~fallen] >= cut_groups.estimated_fsr[~fallen]).all()
    assert "best half was kept" in str(selection.summary())


def test_the_theorems_bound_is_stricter(digits40):
    plain, strict, milder = (
        by_control(q=0.2, cut="per_class", **choice).fit(digits40.X, digits40.y).selection_
        for choice in (
            {"control": "paper"},
            {"control": "theorem"},
            {"control": "theorem", "kappa": 0.5},
        )
    )
    assert np.allclose(strict.q_value, plain.q_value / (8 / 20))
    assert np.allclose(milder.q_value, plain.q_value / 0.5)
    assert strict.clean_mask.sum() < milder.clean_mask.sum() < plain.clean_mask.sum()


def test_of_two_classes_the_theorem_says_what_it_does_not_cover(blobs):
    two = blobs.y < 2
    X, y = blobs.X[two], blobs.y[two]
    with pytest.raises(InputError, match=r"covers two classes only with kappa") as caught:
        PaperKnockoffsSPR(control="theorem").fit(X, y)
    assert "\n" not in str(caught.value)
    PaperKnockoffsSPR(q=0.1, control="theorem", kappa=0.5).fit(X, y)


def test_more_classes_than_a_byte_counts_are_cut_one_by_one():
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 200
    X = rng.standard_normal((200, 16))[y] + 0.1 * rng.standard_normal((2000, 16))
    found = by_control(control="paper", cut="per_class").fit(X, y).selection_
    assert len(found.cut_groups) == 2 * 200
    assert (found.cut_groups.class_code[found.cut_group] == y).all()
    assert (found.cut_groups.n == 5).all()


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({"control": "transition"}, "control must be one of 'paper', 'theorem', got 'transition'."),
        ({"level": "f1"}, "level must be one of 'smallest', 'fixed', got 'f1'."),
        ({"control": "theorem", "kappa": 2}, "kappa must lie in (0, 1)"),
        ({"kappa": 0.5}, "kappa=0.5 goes with control='theorem', not with 'paper'."),
        ({"penalty": "ridge"}, "penalty must be one of 'group', 'lasso', got 'ridge'."),
        ({"first_step": "refit"}, "first_step must be one of 'spr', 'least_squares', got 'refit'."),
        ({"clean_ratio": 1.5}, "clean_ratio must lie in (0, 1), got 1.5."),
        ({"statistic": 3}, "statistic must be one of 'asymmetric'"),
        ({"reduction": "auto"}, "reduction must be a number of components, 'classes', None or a"),
        ({"classes_per_group": 1}, "classes_per_group must be a whole number of at least 2"),
        ({"samples_per_class": 2}, "samples_per_class must be a whole number of at least 4"),
        ({"knockoff": "given"}, "knockoff_labels goes with knockoff='given'"),
        ({"progress": "yes"}, "progress must be True, False or 'auto'"),
    ],
    ids=str,
)
def test_a_wrong_choice_is_one_sentence_with_the_way_out(choice, sentence):
    with pytest.raises(InputError) as caught:
        PaperKnockoffsSPR(**choice).fit(X, Y)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("extra", "sentence"),
    [
        ({"scores": np.zeros((60, 2))}, "expected shape (60, 3), got (60, 2)."),
        ({"scores": np.zeros((59, 3))}, "expected shape (60, 3), got (59, 3)."),
        ({"scores": np.full((60, 3), np.nan)}, "scores hold NaN or inf"),
        ({"clean_mask": np.ones(9, bool)}, "clean_mask has shape (9,)"),
        ({"knockoff_labels": Y}, "knockoff_labels goes with knockoff='given'"),
    ],
)
def test_extra_arguments_are_checked(extra, sentence):
    with pytest.raises(InputError) as caught:
        PaperKnockoffsSPR().fit(X, Y, **extra)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (Y, "must differ from y; they agree in 60 rows"),
        (Y[:9], "X has 60 rows, knockoff_labels has 9"),
        (np.full(60, 7), "must use the classes 0, 1, 2, got 7 in row 0"),
    ],
)
def test_given_knockoffs_are_checked(labels, sentence):
    with pytest.raises(InputError) as caught:
        by_control(control="paper", knockoff="given").fit(X, Y, knockoff_labels=labels)
    assert sentence in str(caught.value)


def test_a_given_knockoff_outside_the_group_is_refused():
    labels = np.repeat(np.arange(6), 10)
    model = by_control(control="paper", knockoff="given", classes_per_group=2)
    with pytest.raises(InputError, match="same group of classes"):
        model.fit(X, labels, knockoff_labels=(labels + 3) % 6)


def test_sparse_features_are_grouped_and_judged_like_dense_ones(digits40):
    model = PaperKnockoffsSPR(classes_per_group=5, samples_per_class=None, progress=False)
    dense, sparse = (
        model.fit(features, digits40.y).selection_
        for features in (digits40.X, sp.csr_array(digits40.X))
    )
    assert (dense.cut_groups.piece == sparse.cut_groups.piece).all()
    assert (dense.clean_mask == sparse.clean_mask).mean() > 0.9


@pytest.mark.parametrize("seed", [1, 2])
def test_masks_are_those_of_the_paper_written_out(seed):
    """Pieces of 5 x 30 digits: SVD, dense ``I - X X^+`` at 1,000 levels, Alg. 1 word for word.

    A near tie may fall the other way; with a path of 16 cells, 7 of 600 rows of seed 2 differed.
    """
    X, true = load_digits(return_X_y=True)
    y = symmetric(true, 0.4, seed=seed)
    # As many rows of each class as fill pieces: no piece draws on a class again.
    chosen = np.concatenate([np.flatnonzero(y == digit)[:60] for digit in range(10)])
    X, y = X[chosen], y[chosen]
    model = PaperKnockoffsSPR(classes_per_group=5, samples_per_class=30, progress=False)
    selection = model.fit(X, y).selection_
    groups, row_group = selection.cut_groups, selection.cut_group
    piece, half = groups.piece[row_group], groups.half[row_group]
    same = []
    for number in np.unique(piece):
        rows = np.flatnonzero(piece == number)
        same.extend(literal_piece(X[rows], y[rows], half[rows]) == selection.clean_mask[rows])
    assert len(same) == 600
    assert np.mean(same) > 0.995


def literal_piece(X: np.ndarray, y: np.ndarray, half: np.ndarray) -> np.ndarray:
    classes = np.unique(y)
    Y = np.eye(len(classes))[np.searchsorted(classes, y)]
    U, size, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    X = (U * size)[:, : len(classes)]
    keep = np.zeros(len(y), dtype=bool)
    for side in (0, 1):
        D1, D2 = half != side, half == side
        Z = times_by_the_path(X[D1], Y[D1])
        clean = np.argsort(Z)[: -(-D1.sum() // 2)]
        residual = Y[D2] - X[D2] @ np.linalg.pinv(X[D1][clean]) @ Y[D1][clean]
        fitted = Y[D2] - residual
        other = np.eye(len(classes))[np.argmax(fitted - 9 * Y[D2], axis=1)]
        Z, Z_tilde = (np.linalg.norm(label - fitted, axis=1) for label in (Y[D2], other))
        W = Z * np.sign(Z - Z_tilde)
        for code in classes:
            own = np.flatnonzero(D2)[y[D2] == code]
            W_own = W[y[D2] == code]
            T, _ = alg_1(W_own, Fraction(1))
            best = np.lexsort((np.abs(W_own), W_own >= 0))[: -(-len(own) // 2)]
            keep[own[(W_own >= -T) & (W_own < 0) if T > 0 else best]] = True
    return keep


def test_without_pca_all_columns_are_used():
    """The 95 leading directions of 120 gave other masks; a half has 100 rows here."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((200, 120)) + 2 * np.eye(4, 120)[np.arange(200) % 4]
    model = PaperKnockoffsSPR(reduction=None, first_step="least_squares", samples_per_class=None)
    selection = model.fit(features, np.arange(200) % 4).selection_
    half = selection.cut_groups.half[selection.cut_group]
    Y = np.eye(4)[np.arange(200) % 4]
    for side in (0, 1):
        beta = np.linalg.pinv(features[half != side]) @ Y[half != side]
        Z = np.linalg.norm(Y[half == side] - features[half == side] @ beta, axis=1)
        np.testing.assert_allclose(selection.selection_time[half == side], Z, rtol=1e-4)
