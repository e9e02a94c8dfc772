"""Features of every kind that users have, in parts of any size: the answer is one."""

import mmap

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from threadpoolctl import threadpool_limits

from kspr import KnockoffsSPR, PaperKnockoffsSPR, Selection
from kspr.noise import symmetric
from kspr.selectors import parts
from kspr.selectors import parts as _threads
from kspr.selectors.parts import HostFeatures

CONTROLS = ("transition", "exchangeable")
CHOICES = {
    "pooled": {},
    "per class": {"cut": "per_class"},
    "splits": {"n_splits": 2},
    "exchangeable": {"control": "exchangeable"},
    "exchangeable per class": {"control": "exchangeable", "cut": "per_class"},
    "neighbours": {"neighbours": 20},
    "part": {"fit_rows": 600},
    "components": {"reduction": 20},
}

controls = pytest.mark.parametrize("control", CONTROLS)


def selected(choice: dict, dtype: type = np.float64) -> Selection:
    X, y = load_digits(return_X_y=True)
    X = np.concatenate([X, X[:40]])  # copies, which are no anchors
    y = symmetric(np.concatenate([y, y[:40]]), 0.3, 0)
    return KnockoffsSPR(q=0.1, **choice).fit(X.astype(dtype), y).selection_


def assert_same_bits(first: Selection, second: Selection) -> None:
    for name in (
        "clean_mask",
        "q_value",
        "doubt",
        "selection_time",
        "suggested_code",
        "knockoff_code",
        "suggestion_probability",
    ):
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name), err_msg=name)
    assert first.noise.rate == second.noise.rate
    assert first.manifest.fingerprint == second.manifest.fingerprint


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_answer_does_not_depend_on_the_size_of_the_parts(choice, monkeypatch):
    whole = selected(choice, np.float32)
    for floats in (74 * 100, 74 * 777):
        monkeypatch.setattr(parts, "_BLOCK_FLOATS", floats)
        assert_same_bits(selected(choice, np.float32), whole)


def test_the_answer_does_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(parts, "_BLOCK_FLOATS", 74 * 100)
    # Otherwise these few rows are worked at by one thread in any case.
    monkeypatch.setattr(_threads, "_WORTH_THREADS", 0)
    one = selected({"n_jobs": 1}, np.float32)
    with threadpool_limits(2, user_api="blas"):
        assert_same_bits(selected({}, np.float32), one)
    assert_same_bits(selected({"n_jobs": 3}, np.float32), one)


def test_a_long_pass_shows_its_name_and_how_far_it_is(capsys):
    X, y = load_digits(return_X_y=True)
    for mode in (True, False):
        KnockoffsSPR(progress=mode).fit(X, y)
        shown = capsys.readouterr().err
        names = ("Looking at rows", "Fitting", "Judging rows", "Grading rows")
        assert [name in shown for name in names] == [mode] * 4


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
    for model in (
        KnockoffsSPR(),
        KnockoffsSPR(fit_rows=600),
        PaperKnockoffsSPR(samples_per_class=50, n_jobs=2),
    ):
        here = model.fit(digits40.X, digits40.y).selection_
        there = model.fit(mapped, digits40.y).selection_
        assert np.array_equal(here.doubt, there.doubt)
        assert here.manifest.fingerprint == there.manifest.fingerprint


@pytest.mark.parametrize(
    "model",
    [KnockoffsSPR(reduction=20), PaperKnockoffsSPR(reduction=30)],
)
def test_sparse_features_are_judged_as_dense_ones(digits40, model):
    dense = model.fit(digits40.X, digits40.y).selection_
    sparse = model.fit(sp.csr_matrix(digits40.X), digits40.y).selection_
    assert (dense.clean_mask == sparse.clean_mask).mean() > 0.95
    assert dense.manifest.fingerprint == sparse.manifest.fingerprint


def test_sparse_features_are_not_made_dense_as_a_whole(monkeypatch):
    dense = sp.csr_array.toarray

    def few(self, *args, **kwargs):
        assert self.shape[0] <= 2048
        return dense(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", few)
    y = np.arange(5000) % 3
    X = sp.random_array((5000, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    KnockoffsSPR(reduction=20).fit(X + sp.csr_array(2 * np.eye(3, 40)[y]), y)


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


@pytest.mark.parametrize("transformer", [PCA(12), TruncatedSVD(12)])
def test_any_fitted_transformer_can_reduce(digits40, transformer):
    transformer.fit(digits40.X)
    own = KnockoffsSPR(reduction=transformer).fit(digits40.X, digits40.y).selection_
    by_hand = KnockoffsSPR(reduction=None).fit(transformer.transform(digits40.X), digits40.y)
    assert np.array_equal(own.clean_mask, by_hand.selection_.clean_mask)


@pytest.mark.parametrize("model", [KnockoffsSPR(), PaperKnockoffsSPR()])
def test_tensors_are_judged_as_arrays(digits40, model):
    here = model.fit(digits40.X, digits40.y).selection_
    X = torch.tensor(digits40.X, requires_grad=True)
    tensor = model.fit(X, torch.tensor(digits40.y)).selection_
    assert np.array_equal(here.doubt, tensor.doubt)
    assert isinstance(tensor.clean_mask, np.ndarray)
    half = torch.tensor(digits40.X).to(torch.bfloat16)
    assert (model.fit(half, digits40.y).selection_.clean_mask == here.clean_mask).mean() > 0.95


@pytest.mark.parametrize("opened", ["map", "memory"])
def test_a_pass_leaves_private_memory_alone(tmp_path, opened):
    """Pages are dropped only of maps that were opened for reading; others would lose data."""
    if opened == "map":
        np.save(tmp_path / "X.npy", np.full((5120, 8), 1.5, dtype=np.float32))
        X = np.load(tmp_path / "X.npy", mmap_mode="c")
        X *= 2
    else:
        memory = mmap.mmap(-1, 4096 * 40)
        X = np.ndarray((5120, 8), dtype=np.float32, buffer=memory)
        X[:] = 3.0
    view = X.view()
    view.flags.writeable = False
    for _ in HostFeatures(view).chosen_blocks(None):
        pass
    assert (X == 3.0).all()


def test_rows_taken_from_a_file_are_those_of_the_array(tmp_path):
    X = np.random.default_rng(0).standard_normal((3000, 5)).astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    mapped = HostFeatures(np.load(tmp_path / "x.npy", mmap_mode="r"))
    # In any order, some of them twice.
    for rows in (np.array([2999, 0, 7, 7, 1500]), np.arange(3000)[::-1]):
        taken = mapped.take(rows)
        assert taken.dtype == np.float32
        np.testing.assert_array_equal(taken, X[rows].astype(np.float32))
    assert mapped.take(np.empty(0, dtype=np.int64)).shape == (0, 5)


def test_as_many_rows_as_a_block_has_need_not_be_its_rows():
    """An empty slot of a piece repeats a row, which must not stand for one that is left out."""
    X = np.arange(8, dtype=np.float32).reshape(4, 2)
    for rows in ([0, 0, 2, 3], [0, 1, 2, 3], [1, 3]):
        blocks = [block for _, block in HostFeatures(X).chosen_blocks(np.array(rows))]
        np.testing.assert_array_equal(np.concatenate(blocks), X[rows])
