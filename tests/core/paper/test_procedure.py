"""Alg. 1 on pieces: what a verdict depends on, and that it is right."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import enet_path

from kspr.core.metrics import selection_quality
from kspr.core.paper.knockoffs import STATISTICS, q_values
from kspr.core.paper.procedure import Judgement, Procedure, judge, keep_smallest, spr_times
from kspr.core.paper.selection_times import PENALTIES, Penalty, group, selection_times
from kspr.core.regression import Targets, fit_basis

FIELDS = ("Z", "Z_tilde", "W", "knockoff", "suggested")
procedures = st.builds(
    Procedure,
    penalty=st.sampled_from(list(PENALTIES.values())),
    intercept=st.booleans(),
    first_step=st.sampled_from(["spr", "least_squares"]),
    clean_ratio=st.sampled_from([0.4, 0.5, 0.7]),
    statistic=st.sampled_from(list(STATISTICS.values())),
)
seeds = st.integers(0, 2**32 - 1)
laws = settings(max_examples=30)


def pieces_of(
    seed: int, pieces: int = 2, slots: int = 36, p: int = 4, c: int = 3, noise: float = 0.2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features, labels, and which labels are wrong; the blobs overlap a little."""
    rng = np.random.default_rng(seed)
    true = np.broadcast_to(np.arange(slots) % c, (pieces, 2, slots))
    X = 2 * np.eye(c, p)[true] + 0.5 * rng.standard_normal((pieces, 2, slots, p))
    wrong = rng.random(true.shape) < noise
    label = np.where(wrong, (true + rng.integers(1, c, true.shape)) % c, true)
    return X, label, wrong


def all_valid(label: np.ndarray) -> np.ndarray:
    return np.ones(label.shape, dtype=bool)


def assert_same(one: Judgement, other: Judgement, select: object = ...) -> None:
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(one, name)[select],
            getattr(other, name)[select],
            rtol=1e-7,
            atol=1e-9,
            err_msg=name,
        )


# --- Which rows SPR keeps ---------------------------------------------------------------------


@settings(max_examples=150)
@given(
    seed=seeds,
    pieces=st.integers(1, 4),
    rows=st.integers(1, 40),
    ratio=st.sampled_from([0.1, 0.25, 0.5, 0.7, 1.0]),
    share=st.floats(0, 1),
    ties=st.booleans(),
)
def test_kept_rows_are_the_smallest_of_their_piece(
    seed: int, pieces: int, rows: int, ratio: float, share: float, ties: bool
) -> None:
    """The paper's "50% of the data": classes have no part in it."""
    rng = np.random.default_rng(seed)
    valid = rng.random((pieces, rows)) < share
    Z = rng.integers(0, 4, (pieces, rows)) / 4 if ties else rng.random((pieces, rows))
    expected = np.zeros((pieces, rows), dtype=bool)
    for b in range(pieces):
        members = [i for i in range(rows) if valid[b, i]]
        members.sort(key=lambda i, b=b: Z[b, i])
        expected[b, members[: math.ceil(ratio * len(members))]] = True
    np.testing.assert_array_equal(keep_smallest(Z, valid, ratio), expected)


# --- Alg. 1 -----------------------------------------------------------------------------------


def alg_1(
    X: np.ndarray, label: np.ndarray, c: int, procedure: Procedure
) -> tuple[np.ndarray, np.ndarray]:
    """Return the times of the labels and the predictions ``(2, slots, c)`` of one piece.

    Steps i and ii as the paper writes them, with NumPy's own least squares.
    """
    slots = X.shape[1]
    predictions = []
    for half in (0, 1):
        D1_X, D1_y, D2_X = X[1 - half], label[1 - half], X[half]
        keep = np.ones(slots, dtype=bool)
        if procedure.first_step == "spr":
            valid = np.ones((1, slots), dtype=bool)
            Q = fit_basis(D1_X[None], valid, procedure.intercept, X.shape[-1]).transform(D1_X[None])
            targets = Targets.from_labels(D1_y[None], c, X.dtype)
            Z = selection_times(Q, targets, valid, procedure.penalty)
            keep = keep_smallest(Z, valid, procedure.clean_ratio)[0]
        if procedure.intercept:
            D1_X, D2_X = (np.column_stack([np.ones(slots), D]) for D in (D1_X, D2_X))
        beta = np.linalg.lstsq(D1_X[keep], np.eye(c)[D1_y[keep]])[0]
        predictions.append(D2_X @ beta)
    prediction = np.stack(predictions)
    residual = np.eye(c)[label] - prediction
    norm = 2 if procedure.penalty is group else np.inf
    return np.linalg.norm(residual, ord=norm, axis=-1), prediction


@laws
@given(seed=seeds, procedure=procedures)
def test_judgement_is_alg_1_word_for_word(seed: int, procedure: Procedure) -> None:
    X, label, _ = pieces_of(seed)
    judgement = judge(X, label, all_valid(label), 3, procedure)
    for b in range(len(X)):
        Z, prediction = alg_1(X[b], label[b], 3, procedure)
        np.testing.assert_allclose(judgement.Z[b], Z, atol=1e-7)
        np.testing.assert_array_equal(judgement.suggested[b], prediction.argmax(axis=-1))
        others = np.where(np.eye(3, dtype=bool)[label[b]], -np.inf, prediction)
        np.testing.assert_array_equal(judgement.knockoff[b], others.argmax(axis=-1))
        residual = np.eye(3)[judgement.knockoff[b]] - prediction
        Z_tilde = procedure.penalty(residual).max(axis=-1)
        np.testing.assert_allclose(judgement.Z_tilde[b], Z_tilde, atol=1e-7)
    np.testing.assert_array_equal(judgement.W, procedure.statistic(judgement.Z, judgement.Z_tilde))


@laws
@given(seed=seeds, procedure=procedures)
def test_a_verdict_depends_on_the_other_half_and_the_sample_itself_only(
    seed: int, procedure: Procedure
) -> None:
    """All labels of half A change, and the features of its other rows: row 0 is judged alike.

    A ridge depends on the basis, and so on the features of all rows, but not on their labels.
    """
    X, label, _ = pieces_of(seed)
    rng = np.random.default_rng(seed)
    judgement = judge(X, label, all_valid(label), 3, procedure)
    relabelled = label.copy()
    relabelled[:, 0] = rng.integers(0, 3, label[:, 0].shape)
    after = judge(X, relabelled, all_valid(label), 3, procedure)
    np.testing.assert_array_equal(after.suggested[:, 0], judgement.suggested[:, 0])
    same = relabelled[:, 0] == label[:, 0]
    for name in FIELDS:
        np.testing.assert_array_equal(
            getattr(after, name)[:, 0][same], getattr(judgement, name)[:, 0][same]
        )
    moved = X.copy()
    moved[:, 0, 1:] += rng.standard_normal(moved[:, 0, 1:].shape)
    after = judge(moved, label, all_valid(label), 3, procedure)
    assert_same(after, judgement, np.s_[:, 0, 0])


def test_the_other_half_does_matter() -> None:
    X, label, _ = pieces_of(0)
    judgement = judge(X, label, all_valid(label), 3, Procedure())
    label[:, 0] = (label[:, 0] + 1) % 3
    after = judge(X, label, all_valid(label), 3, Procedure())
    assert (after.suggested[:, 1] != judgement.suggested[:, 1]).mean() > 0.5


@laws
@given(seed=seeds, procedure=procedures)
def test_halves_may_swap(seed: int, procedure: Procedure) -> None:
    X, label, _ = pieces_of(seed)
    judgement = judge(X, label, all_valid(label), 3, procedure)
    swapped = judge(X[:, ::-1], label[:, ::-1], all_valid(label), 3, procedure)
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(swapped, name)[:, ::-1], getattr(judgement, name), rtol=1e-7, atol=1e-9
        )


@laws
@given(seed=seeds, procedure=procedures)
def test_pieces_judged_together_are_judged_as_alone(seed: int, procedure: Procedure) -> None:
    X, label, _ = pieces_of(seed, pieces=4)
    together = judge(X, label, all_valid(label), 3, procedure)
    for b in range(4):
        alone = judge(X[b : b + 1], label[b : b + 1], all_valid(label[:1]), 3, procedure)
        for name in FIELDS:
            np.testing.assert_allclose(
                getattr(together, name)[b], getattr(alone, name)[0], rtol=1e-7, atol=1e-9
            )


@laws
@given(seed=seeds, procedure=procedures, extra=st.integers(1, 20), junk=st.floats(-50, 50))
def test_padding_changes_no_verdict(
    seed: int, procedure: Procedure, extra: int, junk: float
) -> None:
    X, label, _ = pieces_of(seed)
    bare = judge(X, label, all_valid(label), 3, procedure)
    wide = ((0, 0), (0, 0), (0, extra))
    padded = judge(
        np.pad(X, (*wide, (0, 0)), constant_values=junk),
        np.pad(label, wide, constant_values=1),
        np.pad(all_valid(label), wide),
        3,
        procedure,
    )
    for name in FIELDS:
        np.testing.assert_allclose(
            getattr(padded, name)[..., :36], getattr(bare, name), rtol=1e-7, atol=1e-9
        )


@laws
@given(seed=seeds, procedure=procedures)
def test_knockoff_is_the_given_one_or_the_best_by_the_scores(
    seed: int, procedure: Procedure
) -> None:
    X, label, _ = pieces_of(seed)
    rng = np.random.default_rng(seed)
    given_label = (label + rng.integers(1, 3, label.shape)) % 3
    judgement = judge(X, label, all_valid(label), 3, procedure, knockoff=given_label)
    np.testing.assert_array_equal(judgement.knockoff, given_label)
    scores = rng.standard_normal((*label.shape, 3))
    judgement = judge(X, label, all_valid(label), 3, procedure, scores=scores)
    others = np.where(np.eye(3, dtype=bool)[label], -np.inf, scores)
    np.testing.assert_array_equal(judgement.knockoff, others.argmax(axis=-1))


def test_blocks_of_rows_do_not_show() -> None:
    """Slots beyond one block are judged as those of the first."""
    X, label, _ = pieces_of(0, pieces=1, slots=60_000)
    procedure = Procedure(first_step="least_squares")
    judgement = judge(X, label, all_valid(label), 3, procedure)
    Z, prediction = alg_1(X[0], label[0], 3, procedure)
    np.testing.assert_allclose(judgement.Z[0], Z, atol=1e-9)
    np.testing.assert_array_equal(judgement.suggested[0], prediction.argmax(axis=-1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_planted_errors_are_found(dtype: type, intercept: bool, penalty: Penalty) -> None:
    """Six clear blobs, a fifth of the labels wrong: all errors lose to their knockoff, the
    cut keeps nearly all of the rest, and the suggested label is the true one.
    """
    X, label, wrong = pieces_of(1, pieces=2, slots=600, p=6, c=6)
    X += 2 * np.eye(6)[np.arange(600) % 6]
    procedure = Procedure(penalty=penalty, intercept=intercept)
    judgement = judge(X.astype(dtype), label, all_valid(label), 6, procedure)
    true = np.broadcast_to(np.arange(600) % 6, label.shape)
    assert (judgement.suggested == true).mean() > 0.995
    assert (judgement.W[wrong] > 0).mean() > 0.99
    assert (judgement.W[~wrong] < 0).mean() > 0.99
    cut_groups = (np.arange(4)[:, None] * 6 + label.reshape(4, 600)).ravel()
    # Of about 100 samples in a cut group, none behind: 0.02 is within reach of every cut group.
    quality = selection_quality(q_values(judgement.W.ravel(), cut_groups) <= 0.02, ~wrong.ravel())
    assert quality.fsr < 0.01
    assert quality.recall > 0.95


@pytest.mark.parametrize("procedure", [Procedure(), Procedure(intercept=True)])
def test_a_half_without_samples_gives_no_verdict_rather_than_nan(procedure: Procedure) -> None:
    """Classes of a single sample can leave half B empty."""
    X, label, _ = pieces_of(0, pieces=1)
    valid = all_valid(label)
    valid[:, 1] = False
    judgement = judge(X, label, valid, 3, procedure)
    assert np.isfinite(judgement.W).all()
    assert not judgement.W[:, 0].any()


def test_more_features_than_samples_leave_residuals_to_judge_by() -> None:
    X, label, _ = pieces_of(0, pieces=1, slots=20, p=100)
    judgement = judge(X, label, all_valid(label), 3, Procedure())
    assert np.isfinite(judgement.Z).all()
    assert len(np.unique(judgement.Z)) == 40


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("p", [12, 24, 60], ids=["few", "more than are kept", "more than rows"])
def test_all_columns_are_regressed_on_as_the_paper_writes_it(p: int, intercept: bool) -> None:
    """Without PCA: ``I - X X^+`` and the pseudo-inverse, also where it leaves no residuals.

    With as many columns as rows of a half, ``I - X X^+`` is 0: all rows tie, and the first half of
    them, which stand in random order, are fitted by least norm.
    """
    X, label, _ = pieces_of(0, pieces=1, slots=40)
    rng = np.random.default_rng(0)
    X = X @ rng.standard_normal((4, p)) + 0.3 * rng.standard_normal((*label.shape, p))
    procedure = Procedure(all_columns=True, intercept=intercept, steps=200, sweeps=5)
    judgement = judge(X, label, all_valid(label), 3, procedure)
    ones = np.ones((40, int(intercept)))
    for half in (0, 1):
        D1 = np.column_stack([ones, X[0, 1 - half]])
        Y = np.eye(3)[label[0, 1 - half]]
        keep = np.arange(20)
        if D1.shape[1] < 40:
            keep = np.argsort(times_by_the_path(D1, Y))[:20]
        beta = np.linalg.pinv(D1[keep]) @ Y[keep]
        prediction = np.column_stack([ones, X[0, half]]) @ beta
        Z = np.linalg.norm(np.eye(3)[label[0, half]] - prediction, axis=1)
        np.testing.assert_allclose(judgement.Z[0, half], Z, atol=1e-6)


def times_by_the_path(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the largest lam of a fine grid at which each row of gamma is not zero."""
    D = np.eye(len(X)) - X @ np.linalg.pinv(X)
    lams = np.geomspace(1, 1e-3, 1000) * np.linalg.norm(D @ Y, axis=1).max()
    # scikit-learn divides the squared loss by the number of rows.
    _, gamma, _ = enet_path(D, D @ Y, l1_ratio=1.0, alphas=lams / len(X), tol=1e-7, max_iter=20_000)
    entered = (gamma != 0).any(axis=0)
    return np.where(entered.any(axis=1), lams[entered.argmax(axis=1)], 0.0)


# --- SPR alone --------------------------------------------------------------------------------


@laws
@given(seed=seeds, procedure=procedures)
def test_spr_pieces_together_are_as_alone(seed: int, procedure: Procedure) -> None:
    X, label, _ = pieces_of(seed)
    X, label = X.reshape(4, 36, 4), label.reshape(4, 36)
    Z, suggested = spr_times(X, label, all_valid(label), 3, procedure)
    for b in range(4):
        alone = spr_times(X[b : b + 1], label[b : b + 1], all_valid(label[:1]), 3, procedure)
        np.testing.assert_allclose(Z[b], alone[0][0], rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(suggested[b], alone[1][0])


@pytest.mark.parametrize("penalty", PENALTIES.values(), ids=PENALTIES.keys())
def test_spr_finds_planted_errors(penalty: Penalty) -> None:
    X, label, wrong = pieces_of(2, pieces=1, slots=300, p=6, c=6)
    X += 2 * np.eye(6)[np.arange(300) % 6]
    X, label, wrong = X.reshape(1, 600, 6), label.reshape(1, 600), wrong.reshape(1, 600)
    Z, suggested = spr_times(X, label, all_valid(label), 6, Procedure(penalty=penalty))
    assert Z[wrong].min() > Z[~wrong].max()
    assert (suggested == np.tile(np.arange(300) % 6, 2)).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_spr_finds_errors_even_among_more_features_than_samples(intercept: bool) -> None:
    """A basis as large as the sample would fit every label perfectly, the wrong ones too."""
    X, label, wrong = (a.reshape(1, 80, *a.shape[3:]) for a in pieces_of(0, pieces=1, slots=40))
    rng = np.random.default_rng(0)
    X = X @ rng.standard_normal((4, 200)) + 0.5 * rng.standard_normal((1, 80, 200))
    Z, _ = spr_times(X, label, all_valid(label), 3, Procedure(intercept=intercept))
    assert Z.min() > 1e-3
    assert np.median(Z[wrong]) > 1.5 * np.median(Z[~wrong])


def test_progress_is_told_once_per_cell_of_the_grid() -> None:
    X, label, _ = (part.reshape(2, 72, *part.shape[3:]) for part in pieces_of(0))
    told: list[None] = []
    procedure = Procedure(steps=9)
    spr_times(X, label, all_valid(label), 3, procedure, on_step=lambda: told.append(None))
    assert len(told) == 8
