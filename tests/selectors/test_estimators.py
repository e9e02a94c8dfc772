"""The selectors as scikit-learn estimators, and on every kind of input that users have."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from imblearn.pipeline import make_pipeline
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_estimator

from kspr import SPR, KnockoffsSPR

SELECTORS = [
    SPR(),
    KnockoffsSPR(),
    KnockoffsSPR(control="paper"),
    KnockoffsSPR.paper(),
    KnockoffsSPR(
        control="paper",
        penalty="lasso",
        knockoff="random",
        statistic="symmetric_min",
        cut="pooled",
    ),
    KnockoffsSPR(n_splits=2, cut="pooled", penalty="lasso"),
]
CONTROLS = ("transition", "exchangeable", "paper", "theorem")
controls = pytest.mark.parametrize("control", CONTROLS)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("selector", SELECTORS, ids=lambda s: repr(s)[:60])
def test_selectors_pass_scikit_learns_checks(selector):
    results = check_estimator(selector, on_fail=None)
    assert len(results) > 30
    assert [r for r in results if r["status"] not in ("passed", "skipped")] == []


@controls
def test_fit_predict_marks_clean_one_and_suspect_minus_one(blobs, control):
    selector = KnockoffsSPR(q=0.3, control=control)
    marks = selector.fit_predict(blobs.X, blobs.y)
    assert set(np.unique(marks)) == {-1, 1}
    assert np.array_equal(marks == 1, selector.selection_.clean_mask)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"n_splits": 2},
        {"control": "exchangeable"},
        {"control": "paper"},
        {"control": "paper", "knockoff": "random"},
    ],
    ids=str,
)
def test_the_answer_depends_on_the_seed_alone(digits40, choice):
    first, again, other = (
        KnockoffsSPR(random_state=seed, **choice).fit(digits40.X, digits40.y).selection_
        for seed in (3, 3, 4)
    )
    assert np.array_equal(first.q_value, again.q_value)
    assert np.array_equal(first.statistic, again.statistic)
    assert not np.array_equal(first.statistic, other.statistic)


@pytest.mark.parametrize(
    ("selector", "choice"),
    [
        (SPR, {}),
        (SPR, {"classes_per_group": 4, "samples_per_class": 40}),
        (KnockoffsSPR, {}),
        (KnockoffsSPR, {"samples_per_class": 40}),
        (KnockoffsSPR, {"control": "exchangeable", "samples_per_class": 40}),
        (KnockoffsSPR, {"control": "paper"}),
        (KnockoffsSPR, {"control": "paper", "classes_per_group": 4, "samples_per_class": 40}),
    ],
)
def test_every_engine_gives_the_serial_answer(digits40, selector, choice, monkeypatch):
    # Small batches: several work items even on this little data.
    monkeypatch.setattr("kspr.selectors._pieces._BATCH_BYTES", 1 << 16)

    def statistic(engine, n_jobs):
        model = selector(engine=engine, n_jobs=n_jobs, reduction=8, **choice)
        return model.fit(digits40.X, digits40.y).selection_.statistic

    serial = statistic("serial", None)
    for engine, n_jobs in [("threads", 1), ("threads", 3), ("processes", 2)]:
        assert np.array_equal(statistic(engine, n_jobs), serial), (engine, n_jobs)


@pytest.mark.parametrize(
    "choice", [{}, {"control": "paper", "statistic": "symmetric_min"}], ids=str
)
def test_clone_and_pickle_keep_parameters_and_results(blobs, choice):
    model = KnockoffsSPR(q=0.07, **choice).fit(blobs.X, blobs.y)
    assert clone(model).get_params() == model.get_params()
    thawed = pickle.loads(pickle.dumps(model))  # noqa: S301 - scikit-learn users do this
    assert np.array_equal(thawed.selection_.clean_mask, model.selection_.clean_mask)


@pytest.mark.parametrize("control", ["transition", "paper"])
def test_works_as_a_step_of_an_imbalanced_learn_pipeline(digits40, control):
    classifier = LogisticRegression(max_iter=2000)
    plain = classifier.fit(digits40.X, digits40.y).score(digits40.X, digits40.y_true)
    pipeline = make_pipeline(
        KnockoffsSPR(q=0.05, control=control), LogisticRegression(max_iter=2000)
    )
    cleaned = pipeline.fit(digits40.X, digits40.y).score(digits40.X, digits40.y_true)
    assert cleaned > plain + 0.03


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_fit_resample_returns_the_containers_it_was_given(blobs, frame):
    names = [f"f{i}" for i in range(blobs.X.shape[1])]
    X = frame(dict(zip(names, blobs.X.T, strict=True)))
    series = pd.Series if frame is pd.DataFrame else pl.Series
    labels = series(np.array(["a", "b", "c"])[blobs.y])
    model = KnockoffsSPR(q=0.1)
    kept_X, kept_y = model.fit_resample(X, labels)
    assert type(kept_X) is frame
    assert type(kept_y) is series
    assert list(model.feature_names_in_) == names
    clean = model.selection_.clean_mask
    assert np.array_equal(np.asarray(kept_X), blobs.X[clean])
    assert list(kept_y) == list(np.asarray(labels)[clean])


@pytest.mark.parametrize(
    "names",
    [np.array(["ä b", "", "x"]), np.array([True, False, True]), np.array([-5, 10**12, 7])],
    ids=["text", "bool", "int"],
)
def test_labels_of_any_kind_give_the_same_verdicts(blobs, names):
    if names.dtype == bool:
        # Two classes: merge the third into the first.
        codes = np.where(blobs.y == 2, 0, blobs.y)
        values = codes == 0
    else:
        codes, values = blobs.y, names[blobs.y]
    order = np.unique(values, return_inverse=True)[1]
    plain = KnockoffsSPR(q=0.1).fit(blobs.X, order).selection_
    named = KnockoffsSPR(q=0.1).fit(blobs.X, values).selection_
    assert np.array_equal(plain.clean_mask, named.clean_mask)
    assert named.suggested_label.dtype == values.dtype
    assert set(named.suggested_label) <= set(values)
    del codes


@controls
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_precision_of_storage_hardly_matters(digits40, dtype, control):
    model = KnockoffsSPR(q=0.2, control=control)
    wide = model.fit(digits40.X, digits40.y).selection_.clean_mask
    stored = model.fit(digits40.X.astype(dtype), digits40.y).selection_.clean_mask
    assert wide.mean() > 0.3
    # The pixels are whole numbers up to 16, exact in all three.
    assert (wide == stored).mean() > 0.995


def test_a_memory_map_gives_the_answer_of_the_array(digits40, tmp_path):
    np.save(tmp_path / "x.npy", digits40.X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    here = KnockoffsSPR().fit(digits40.X, digits40.y).selection_
    there = KnockoffsSPR().fit(mapped, digits40.y).selection_
    assert np.array_equal(here.statistic, there.statistic)
    assert here.manifest.fingerprint == there.manifest.fingerprint
    split = {"samples_per_class": 50, "reduction": 8, "engine": "processes", "n_jobs": 2}
    here = KnockoffsSPR(**split).fit(digits40.X, digits40.y).selection_
    there = KnockoffsSPR(**split).fit(mapped, digits40.y).selection_
    assert np.array_equal(here.statistic, there.statistic)


@pytest.mark.parametrize(
    "split", [{}, {"control": "paper", "classes_per_group": 5, "samples_per_class": 60}]
)
def test_sparse_features_are_judged_without_being_made_dense(digits40, split, monkeypatch):
    dense = KnockoffsSPR(reduction=20, **split).fit(digits40.X, digits40.y).selection_.clean_mask

    def refuse(self, *args, **kwargs):
        raise AssertionError("made dense")

    matrix = sp.csr_matrix(digits40.X)
    if not split:  # grouping looks at blocks of rows to average them
        monkeypatch.setattr(sp.csr_array, "toarray", refuse)
        monkeypatch.setattr(sp.csr_array, "todense", refuse)
    sparse = KnockoffsSPR(reduction=20, **split).fit(matrix, digits40.y).selection_.clean_mask
    assert (dense == sparse).mean() > 0.98


def test_wide_sparse_features_use_an_iterative_solver():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 100)
    X = sp.random(200, 3000, density=0.01, random_state=0, format="csr")
    X = X + sp.csr_matrix(np.outer(y, rng.random(3000) < 0.01))
    labels = y.copy()
    labels[:10] = 1
    # The wrong ones are 5 % of all and 9 % of their class: only q below that shuts them out.
    selection = KnockoffsSPR(q=0.05, reduction=5).fit(X, labels).selection_
    assert selection.clean_mask[:10].sum() <= 0.05 * selection.clean_mask.sum()
    assert selection.clean_mask.sum() > 120
    paper = KnockoffsSPR(q=0.2, reduction=5, control="paper").fit(X, labels).selection_
    assert paper.clean_mask[:10].sum() == 0
    assert paper.clean_mask.sum() > 120


@pytest.mark.parametrize("transformer", [PCA(12), TruncatedSVD(12)])
def test_any_fitted_transformer_can_reduce(digits40, transformer):
    transformer.fit(digits40.X)
    own = KnockoffsSPR(reduction=transformer).fit(digits40.X, digits40.y).selection_
    by_hand = KnockoffsSPR(reduction=None).fit(transformer.transform(digits40.X), digits40.y)
    assert np.array_equal(own.clean_mask, by_hand.selection_.clean_mask)


@controls
def test_torch_tensors_are_judged_where_they_are(digits40, control):
    # Twenty components: pixels that are blank in one half leave the full space ill-conditioned.
    model = KnockoffsSPR(reduction=20, control=control)
    here = model.fit(digits40.X, digits40.y).selection_
    tensor = model.fit(torch.tensor(digits40.X), torch.tensor(digits40.y)).selection_
    assert np.allclose(here.statistic, tensor.statistic)
    assert np.array_equal(here.clean_mask, tensor.clean_mask)
    assert isinstance(tensor.clean_mask, np.ndarray)


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


@pytest.mark.parametrize("control", ["transition", "exchangeable", "paper"])
@pytest.mark.parametrize("shape", ["constant", "duplicated", "rank 1", "scales", "wide", "one"])
def test_difficult_features_are_ordinary_input(blobs, shape, control):
    X = blobs.X[:, :5]
    rng = np.random.default_rng(0)
    altered = {
        "constant": np.hstack([X, np.full((360, 3), 7.0)]),
        "duplicated": np.hstack([X, X, X]),
        "rank 1": np.outer(X[:, 0], [1.0, -2.0, 3.0]),
        "scales": X * [1e-6, 1, 1e6, 1e3, 1e-3],
        "wide": np.hstack([X, 0.1 * rng.standard_normal((360, 1000))]),
        "one": X[:, :1],
    }[shape]
    for dtype in (np.float32, np.float64):
        for reduction in (64, None):
            selector = KnockoffsSPR(q=0.2, reduction=reduction, control=control)
            selection = selector.fit(altered.astype(dtype), blobs.y).selection_
            assert np.isfinite(selection.statistic).all()
            if shape not in ("rank 1", "one"):
                kept_wrong = (selection.clean_mask & ~blobs.right).sum()
                assert kept_wrong <= 0.2 * max(1, selection.clean_mask.sum())
                # A fifth wrong of three classes adds 1/8 to the estimate of exchange: its floor.
                assert selection.clean_mask.mean() > (0.05 if control == "exchangeable" else 0.4)


def test_fewer_samples_than_dimensions_work():
    rng = np.random.default_rng(0)
    y = np.repeat(["p", "q"], 12)
    X = rng.standard_normal((24, 300)) + 1.5 * (y == "p")[:, None]
    selection = KnockoffsSPR(q=0.3).fit(X, y).selection_
    assert np.isfinite(selection.statistic).all()
    assert selection.clean_mask.sum() >= 12


def test_classes_of_very_unequal_size_are_all_judged():
    rng = np.random.default_rng(0)
    sizes = [600, 60, 6, 2]
    y = np.repeat(np.arange(4), sizes)
    X = rng.standard_normal((len(y), 8)) + 6 * np.eye(8)[y]
    for choice in (
        {},
        {"samples_per_class": 20},
        {"control": "exchangeable"},
        {"control": "paper"},
        {"control": "paper", "classes_per_group": 2, "samples_per_class": 20},
    ):
        selection = KnockoffsSPR(q=0.1, reduction=None, **choice).fit(X, y).selection_
        assert (selection.cut_groups.piece[selection.cut_group] >= 0).all()
        assert (
            np.bincount(selection.cut_groups.class_code, selection.cut_groups.n).tolist() == sizes
        )
        assert selection.clean_mask[y == 0].mean() > 0.8


def test_the_paper_preset_is_the_designs_right_hand_column():
    chosen = KnockoffsSPR.paper().get_params()
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
    assert KnockoffsSPR.paper(q=0.1).q == 0.1


@pytest.mark.parametrize("split", [{}, {"samples_per_class": 20}])
def test_progress_is_shown_when_asked_and_only_then(blobs, split, capfd):
    KnockoffsSPR(progress=False, **split).fit(blobs.X, blobs.y)
    KnockoffsSPR(progress="auto", **split).fit(blobs.X, blobs.y)
    assert capfd.readouterr().err == ""
    KnockoffsSPR(progress=True, **split).fit(blobs.X, blobs.y)
    assert "Knockoffs-SPR" in capfd.readouterr().err
