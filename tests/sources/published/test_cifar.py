"""CIFAR's files and CIFAR-N's labels."""

import pickle
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.noise import CIFAR10, CIFAR100, CIFAR100_COARSE, SUPERCLASSES
from kspr.sources.options import ReadOptions
from kspr.sources.published.cifar import CIFAR_10, CIFAR_100


def test_the_class_tables_are_cifars():
    assert len(set(CIFAR100)) == 100
    assert len(CIFAR100_COARSE) == 20
    assert all(len(members) == 5 for members in SUPERCLASSES.values())
    # Numbers that are well known from the published meta files.
    known = {0: "apple", 8: "bicycle", 39: "keyboard", 53: "orange", 83: "sweet_pepper", 99: "worm"}
    assert {i: CIFAR100[i] for i in known} == known
    assert CIFAR100_COARSE.index("people") == 14


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("version", ["python", "binary"])
def test_cifar10_rows_keep_their_order(cifar10, version, split):
    folder = getattr(cifar10, version)()
    records = CIFAR_10.read(folder, ReadOptions(split=split))
    part = slice(0, 5) if split == "train" else slice(5, 6)
    assert records.reader == "cifar10"
    assert records.label.tolist() == [CIFAR10[c] for c in cifar10.labels[part].ravel()]
    assert records.row_id.tolist() == [str(i) for i in range(len(records))]
    assert list(records.items.content()) == [
        p.tobytes() for p in cifar10.pixels[part].reshape(-1, 3072)
    ]
    assert records.truth is None


def test_images_are_rows_of_colour_planes(cifar10):
    records = CIFAR_10.read(cifar10.binary())
    image = records.items[5]
    assert (image.mode, image.size) == ("RGB", (32, 32))
    planes = cifar10.pixels[1, 1].reshape(3, 32, 32)
    np.testing.assert_array_equal(np.asarray(image), np.moveaxis(planes, 0, -1))
    assert records.items[-1].size == (32, 32)
    with pytest.raises(IndexError):
        records.items[20]


def test_python2_and_python3_pickles_read_the_same(cifar10, dump):
    assert (
        CIFAR_10.read(cifar10.python(dump)).label == CIFAR_10.read(cifar10.binary()).label
    ).all()


@pytest.mark.parametrize("version", ["python", "binary"])
def test_one_batch_can_be_read_alone(cifar10, version):
    folder = getattr(cifar10, version)()
    path = next(folder.glob("test_batch*"))
    assert CIFAR_10.matches(path)
    records = CIFAR_10.read(path, ReadOptions())
    assert records.label.tolist() == [CIFAR10[c] for c in cifar10.labels[5]]


@pytest.mark.parametrize("version", ["python", "binary"])
def test_cifar100_has_fine_and_coarse_labels(cifar100, version):
    folder = getattr(cifar100, version)()
    images, fine, _ = cifar100.parts["train"]
    records = CIFAR_100.read(folder)
    assert records.label.tolist() == [CIFAR100[c] for c in fine]
    assert list(records.items.content()) == [p.tobytes() for p in images]
    records = CIFAR_100.read(folder, ReadOptions(label="coarse", split="test"))
    assert records.label.tolist() == [CIFAR100_COARSE[c] for c in cifar100.parts["test"][2]]
    with pytest.raises(InputError, match=r"no labels 'medium'; it has coarse, fine\."):
        CIFAR_100.read(folder, ReadOptions(label="medium"))


def test_folders_are_told_apart(cifar10, cifar100, tmp_path):
    folders = [cifar10.python(), cifar10.binary(), cifar100.python(), cifar100.binary()]
    assert [CIFAR_10.matches(folder) for folder in folders] == [True, True, False, False]
    assert [CIFAR_100.matches(folder) for folder in folders] == [False, False, True, True]
    assert not CIFAR_10.matches(tmp_path)
    assert not CIFAR_10.matches(folders[0] / "batches.meta")


def test_a_folder_of_images_called_train_and_test_is_not_cifar(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "test").mkdir()
    (tmp_path / "train.bin").write_bytes(b"")
    assert not CIFAR_100.matches(tmp_path)


def test_the_extracted_folder_may_lie_inside_the_named_one(cifar10, tmp_path):
    outer = tmp_path / "cifar10"
    outer.mkdir()
    cifar10.python(folder=outer / "cifar-10-batches-py")
    assert CIFAR_10.present(outer)
    assert CIFAR_10.matches(outer)
    assert len(CIFAR_10.read(outer)) == 20
    assert ("cifar-10-batches-py/data_batch_1", "training images and labels") in CIFAR_10.files(
        outer
    )


def test_the_listing_names_every_file(cifar10):
    folder = cifar10.binary()
    assert all((folder / name).is_file() for name, _ in CIFAR_10.files(folder))
    assert len(CIFAR_10.files(folder.parent / "nowhere")) == 6


@pytest.mark.parametrize(
    ("version", "name", "archive"),
    [
        ("python", "data_batch_3", "cifar-10-python.tar.gz"),
        ("binary", "data_batch_3.bin", "cifar-10-binary.tar.gz"),
    ],
)
def test_a_missing_batch_is_named_with_its_archive(cifar10, version, name, archive):
    folder = getattr(cifar10, version)()
    (folder / name).unlink()
    assert not CIFAR_10.present(folder)
    assert CIFAR_10.matches(folder)
    with pytest.raises(InputError, match=f"{name} is missing; it comes with {archive}"):
        CIFAR_10.read(folder)


def test_an_empty_folder_names_the_first_file(tmp_path):
    with pytest.raises(InputError, match="data_batch_1 is missing; it comes with cifar-10-python"):
        CIFAR_10.read(tmp_path)


@pytest.mark.parametrize("version", ["python", "binary"])
@pytest.mark.parametrize("size", [0, 1000, -1])
def test_a_cut_batch_is_named(cifar10, version, size):
    folder = getattr(cifar10, version)()
    path = next(folder.glob("data_batch_2*"))
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match=rf"{path.name} is cut short.*cifar-10-{version}\.tar\.gz"):
        CIFAR_10.read(folder)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [0]}, "has no data"),
        ([1, 2], "has no data"),
        ({"data": np.zeros((1, 3072), np.uint8)}, "has no labels"),
        ({"data": np.zeros((2, 3072), np.uint8), "labels": [0]}, "do not fit together"),
        ({"data": np.zeros((1, 99), np.uint8), "labels": [0]}, "do not fit together"),
        ({"data": np.zeros((1, 3072)), "labels": [0]}, "not rows of bytes"),
        ({"data": "text", "labels": [0]}, "not rows of bytes"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": ["cat"]}, "not whole numbers"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [2**70]}, "not whole numbers"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": []}, "has no labels"),
        ({"data": np.zeros((1, 3072), np.uint8), "labels": [10]}, r"labels outside 0\.\.9"),
    ],
)
def test_a_batch_with_other_content_is_refused(cifar10, content, message):
    folder = cifar10.python()
    (folder / "data_batch_1").write_bytes(pickle.dumps(content, 2))
    with pytest.raises(InputError, match=message):
        CIFAR_10.read(folder)


def test_options_of_tables_do_not_apply(cifar10):
    with pytest.raises(InputError, match="option features does not apply to cifar10"):
        CIFAR_10.read(cifar10.python(), ReadOptions(features="emb_*"))


def test_an_unknown_split_is_answered_with_the_known_ones(cifar10):
    with pytest.raises(InputError, match=r"no split 'valid'; it has train, test\."):
        CIFAR_10.read(cifar10.python(), ReadOptions(split="valid"))


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
    with pytest.raises(InputError, match=r"no array 'worst_label'\. Did you mean 'worse_label'"):
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
