"""Features of every kind that users have: precision, memory maps, sparse, tensors, transformers."""

import mmap

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.decomposition import PCA, TruncatedSVD

from kspr import InputError, KnockoffsSPR
from kspr.core.arrays import mapped_file
from kspr.selectors import _passes, base, feature_rows
from kspr.selectors.feature_rows import DenseFeatures, MovedFeatures, as_features, largest_size

CONTROLS = ("transition", "exchangeable", "paper", "theorem")

controls = pytest.mark.parametrize("control", CONTROLS)


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


def test_a_pass_leaves_private_changes_of_a_map_alone(tmp_path):
    """Pages are dropped only of maps that were opened for reading; others would lose data."""
    stored = np.arange(60000, dtype=np.float32).reshape(-1, 6)
    np.save(tmp_path / "X.npy", stored)
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X *= 2
    view = X.view()
    view.flags.writeable = False
    for _ in as_features(view).blocks():
        pass
    assert (2 * stored == X).all()


def test_a_pass_leaves_anonymous_memory_alone():
    memory = mmap.mmap(-1, 4096 * 40)
    X = np.ndarray((5120, 8), dtype=np.float32, buffer=memory)
    X[:] = 3.0
    view = X.view()
    view.flags.writeable = False
    for _ in as_features(view).blocks():
        pass
    assert (X == 3.0).all()


def test_pages_of_a_map_that_was_opened_for_reading_are_dropped(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((10, 4), dtype=np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert mapped_file(np.asarray(X)[2:]) is X._mmap
    assert mapped_file(np.zeros((2, 2))) is None


def test_the_largest_size_is_that_of_either_sign_in_any_container():
    X = np.array([[1.0, -7.0], [3.0, 0.0]])
    for held in (X, sp.csr_array(X), torch.tensor(X), X.astype(np.float32)):
        assert largest_size(as_features(held))[0] == 7.0
    assert largest_size(as_features(X.astype(np.float32)))[1] < 1e16


def test_rows_gathered_from_a_file_are_those_of_the_array(tmp_path, monkeypatch):
    monkeypatch.setattr(feature_rows, "_BLOCK_BYTES", 1 << 12)
    X = np.random.default_rng(0).standard_normal((3000, 5)).astype(np.float16)
    np.save(tmp_path / "x.npy", X)
    mapped = DenseFeatures(np.load(tmp_path / "x.npy", mmap_mode="r"))
    # In any order, some of them twice, in any shape.
    for index in (np.array([2999, 0, 7, 7, 1500]), np.arange(3000)[::-1].reshape(2, 3, 500)):
        found = mapped.take(index)
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, X[index].astype(np.float32))
    assert mapped.take(np.empty(0, dtype=np.int64)).shape == (0, 5)


@controls
def test_rows_are_moved_to_a_device_in_every_pass_and_not_more_often(
    digits40, control, monkeypatch
):
    """The same code runs on a GPU; here the device is the CPU, and what moves is counted."""
    made = []

    def counting(*given):
        made.append(MovedFeatures(*given))
        return made[-1]

    monkeypatch.setattr(base, "MovedFeatures", counting)
    monkeypatch.setattr(_passes, "_HELD", 0)
    choice = {"reduction": 20, "control": control}
    here = KnockoffsSPR(**choice).fit(digits40.X, digits40.y).selection_
    there = KnockoffsSPR(**choice, device="cpu").fit(digits40.X, digits40.y).selection_
    assert np.allclose(here.statistic, there.statistic)
    assert np.array_equal(here.clean_mask, there.clean_mask)
    # Copies are looked for in one pass and two samples, which are all of so few rows; components
    # take two passes and scores one; then rows are judged and, by two controls, graded.
    passes = {"transition": 10, "exchangeable": 10, "paper": 8, "theorem": 8}[control]
    assert made[0].moved / len(digits40.X) == pytest.approx(passes, abs=0.01)


@pytest.mark.parametrize(
    ("X", "choice", "sentence"),
    [
        (np.eye(8), {"device": "cudda"}, "device must be one that torch can use here"),
        (np.eye(8), {"device": "cpu", "engine": "processes"}, "goes with engine='serial' or"),
        (sp.eye_array(8), {"device": "cpu"}, "device='cpu' needs a dense X, got a sparse matrix"),
    ],
)
def test_a_device_that_cannot_serve_is_refused_in_a_sentence(X, choice, sentence):
    with pytest.raises(InputError, match=sentence):
        KnockoffsSPR(**choice).fit(X, np.arange(8) % 2)
