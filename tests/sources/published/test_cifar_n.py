"""CIFAR-N's labels on CIFAR's images."""

import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE
from kspr.sources.options import ReadOptions
from kspr.sources.published.cifar import CIFAR_10, CIFAR_100


def torch_zip(path, content):
    """Write what `torch.save` writes for a dictionary of arrays."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{path.stem}/data.pkl", pickle.dumps(content, 2))
        archive.writestr(f"{path.stem}/version", "3\n")
    return path


@pytest.fixture
def human10(cifar10):
    """Return CIFAR-10's folder and CIFAR-10N's arrays for it."""
    clean = cifar10.labels[:5].ravel()
    arrays = {"clean_label": clean}
    for shift, name in enumerate(["aggre", "worse", "random1", "random2", "random3"], start=1):
        key = f"random_label{name[-1]}" if name.startswith("random") else f"{name}_label"
        arrays[key] = (clean + shift) % 10
    return cifar10.python(), arrays


def names(codes, classes=CIFAR10):
    return [classes[c] for c in codes]


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (None, "aggre_label"),
        ("worse_label", "worse_label"),
        ("worst", "worse_label"),
        ("rand2", "random_label2"),
        ("random_label3", "random_label3"),
        ("clean", "clean_label"),
    ],
)
def test_each_array_can_be_chosen(tmp_path, human10, asked, key):
    folder, arrays = human10
    path = torch_zip(tmp_path / "CIFAR-10_human.pt", arrays)
    records = CIFAR_10.read(folder, ReadOptions(labels=path, label=asked))
    assert records.label.tolist() == names(arrays[key])
    assert records.truth.tolist() == names(arrays["clean_label"])
    assert len(records.items) == 20


@pytest.mark.parametrize("form", ["zip", "legacy", "npy", "csv"])
def test_every_form_of_the_file_reads_the_same(tmp_path, human10, form):
    folder, arrays = human10
    if form in ("zip", "legacy"):
        torch = pytest.importorskip("torch")
        path = tmp_path / "CIFAR-10_human.pt"
        torch.save(arrays, path, _use_new_zipfile_serialization=form == "zip")
    elif form == "npy":
        path = tmp_path / "CIFAR-10_human.npy"
        np.save(path, arrays, allow_pickle=True)
    else:
        path = tmp_path / "CIFAR-10_human_annotations.csv"
        table = np.stack(list(arrays.values()), axis=1)
        np.savetxt(path, table, "%d", ",", header=",".join(arrays), comments="")
    records = CIFAR_10.read(folder, ReadOptions(labels=path))
    assert records.label.tolist() == names(arrays["aggre_label"])


@pytest.mark.parametrize("inner", [True, False])
def test_tensorflows_order_is_undone_by_the_order_file(tmp_path, human10, inner):
    folder, arrays = human10
    order = np.random.default_rng(1).permutation(20)
    path = tmp_path / "data" / "CIFAR-10_human_ordered.npy"
    path.parent.mkdir()
    np.save(path, {key: values[order] for key, values in arrays.items()}, allow_pickle=True)
    with pytest.raises(InputError, match=r"its order is another one.*image_order_c10\.npy"):
        CIFAR_10.read(folder, ReadOptions(labels=path))
    np.save((path.parent if inner else tmp_path) / "image_order_c10.npy", order)
    records = CIFAR_10.read(folder, ReadOptions(labels=path))
    assert records.label.tolist() == names(arrays["aggre_label"])


def test_cifar100n_has_fine_and_coarse_labels(tmp_path, cifar100):
    _, fine, coarse = cifar100.parts["train"]
    arrays = {
        "clean_label": fine,
        "noisy_label": (fine + 1) % 100,
        "clean_coarse_label": coarse.tolist(),
        "noisy_coarse_label": ((coarse + 1) % 20).tolist(),
    }
    path = torch_zip(tmp_path / "CIFAR-100_human.pt", arrays)
    folder = cifar100.binary()
    records = CIFAR_100.read(folder, ReadOptions(labels=path))
    assert records.label.tolist() == names(arrays["noisy_label"], CIFAR100)
    assert records.truth.tolist() == names(fine, CIFAR100)
    records = CIFAR_100.read(folder, ReadOptions(labels=path, label="noisy_coarse_label"))
    assert records.label.tolist() == names(arrays["noisy_coarse_label"], CIFAR100_COARSE)
    assert records.truth.tolist() == names(coarse, CIFAR100_COARSE)


@pytest.mark.parametrize("kind", ["numbers.npy", "names.npy", "numbers.txt", "names.txt"])
def test_a_single_column_of_labels_is_enough(tmp_path, human10, kind):
    folder, arrays = human10
    path = tmp_path / kind
    labels = arrays["worse_label"] if "numbers" in kind else np.array(names(arrays["worse_label"]))
    if path.suffix == ".npy":
        np.save(path, labels)
    else:
        path.write_text("".join(f"{label}\n" for label in labels))
    records = CIFAR_10.read(folder, ReadOptions(labels=path))
    assert records.label.tolist() == names(arrays["worse_label"])
    assert records.truth.tolist() == names(arrays["clean_label"])


def test_bad_label_files_are_answered_in_one_sentence(tmp_path, human10):
    folder, arrays = human10

    def read(path, **options):
        CIFAR_10.read(folder, ReadOptions(labels=path, **options))

    path = torch_zip(tmp_path / "CIFAR-10_human.pt", arrays)
    with pytest.raises(InputError, match=r"no array 'worst_label'; it has worse_label"):
        read(path, label="worst_label")
    with pytest.raises(
        InputError, match=r"CIFAR-10_humans.pt is missing; it comes with the CIFAR-N"
    ):
        read(tmp_path / "CIFAR-10_humans.pt")
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(InputError, match="cut short or damaged"):
        read(path)
    torch_zip(path, {key: values[:7] for key, values in arrays.items()})
    with pytest.raises(InputError, match="has 7 labels but there are 20 images"):
        read(path)
    torch_zip(path, {"clean_label": np.zeros((2, 2), int)})
    with pytest.raises(InputError, match="no column of labels"):
        read(path)
    torch_zip(path, [1, 2])
    with pytest.raises(InputError, match="no arrays of labels"):
        read(path)
    (tmp_path / "labels.txt").write_text("otter\n" * 20)
    with pytest.raises(
        InputError, match=r"label 'otter'; labels are class names or numbers in 0..9"
    ):
        read(tmp_path / "labels.txt")
    (tmp_path / "labels.csv").write_text("clean_label,aggre_label\n1\n")
    with pytest.raises(InputError, match="has 1 cells in line 2 where its header has 2"):
        read(tmp_path / "labels.csv")
    (tmp_path / "labels.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match="no file of labels"):
        read(tmp_path / "labels.xlsx")
    with pytest.raises(InputError, match=r"labels\.npy is missing"):
        read(tmp_path / "labels.npy")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_table_as_kspr_noise_writes_it_is_read(tmp_path, human10, suffix):
    folder, arrays = human10
    noisy = names(arrays["random_label1"])
    table = pa.table({"row": range(20), "id": [str(i) for i in range(20)], "label": noisy})
    path = tmp_path / f"noisy.{suffix}"
    (pa_csv.write_csv if suffix == "csv" else pq.write_table)(table, path)
    records = CIFAR_10.read(folder, ReadOptions(labels=path))
    assert records.label.tolist() == noisy
    assert records.truth.tolist() == names(arrays["clean_label"])
