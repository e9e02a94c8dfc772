"""Data on disk, as recipes find it; files of the right shape stand for CIFAR-10."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.experiments.reproduce.data import absent, describe, identity, is_stored, open_sample
from kspr.features.options import EmbedSettings
from tests.experiments.reproduce.samples import FEATURES, IMAGES, png


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 24)).save(path)


def test_data_is_found_in_the_folder_or_the_one_that_holds_it(folder):
    for given in (folder, folder / "cifar10"):
        assert absent(FEATURES, given) is None
        assert open_sample(FEATURES, given).X.shape == (400, 16)


def test_features_of_one_data_set_are_not_taken_for_another(folder):
    assert absent({**FEATURES, "dataset": "cifar100"}, folder / "cifar10").startswith("cifar100 is")


def test_what_is_not_there_cannot_be_opened(tmp_path):
    with pytest.raises(InputError, match="cifar10 is not on this machine"):
        open_sample(FEATURES, tmp_path)


def test_other_files_are_another_identity(folder, tmp_path):
    (tmp_path / "cifar10").mkdir()
    np.savez(tmp_path / "cifar10" / "features.npz", X_train=np.ones((3, 2)))
    assert identity(FEATURES, folder) != identity(FEATURES, tmp_path)
    assert identity({"source": "digits"}, folder) == []


def test_peoples_labels_take_the_place_of_the_given_ones(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "data")
    (tmp_path / "data" / "cifar10n").mkdir()
    given = (np.arange(400) + 1) % 10
    pq.write_table(pa.table({"aggre": given}), tmp_path / "data" / "cifar10n" / "labels.parquet")
    human = {**FEATURES, "labels": "cifar10n/labels.parquet", "column": "aggre"}
    for where in (tmp_path / "data", tmp_path / "data" / "cifar10"):
        sample = open_sample(human, where)
        assert np.array_equal(sample.label, given)
        assert np.array_equal(sample.truth, open_sample(FEATURES, where).truth)
    assert len(identity(human, where)) == len(identity(FEATURES, where)) + 1
    assert describe(human) == "cifar10, features, labels aggre of cifar10n/labels.parquet"
    missing = "cifar10n/labels.parquet is not on this machine"
    assert absent(human, folder / "cifar10").startswith(missing)
    with pytest.raises(InputError, match=missing):
        open_sample(human, folder)


def test_embedded_texts_are_split_as_their_file_says(tmp_path):
    split = np.array(["train", "train", "val", "test"])
    y = np.array(["a", "b", "a", "b"])
    np.savez(tmp_path / "texts.npz", X=np.eye(4, dtype="f2"), y=y, split=split)
    source = {"source": "texts", "file": "texts.npz"}
    sample = open_sample(source, tmp_path)
    assert sample.label.tolist() == ["a", "b"]
    assert sample.test[1].tolist() == ["b"]
    assert describe(source) == "texts, embedded texts"
    assert identity(source, tmp_path) != []
    assert "is not on this machine" in absent(source, tmp_path / "elsewhere" / "deeper")


def test_stored_features_need_neither_parsing_nor_embedding(folder, tmp_path):
    assert is_stored(FEATURES, folder)
    assert is_stored({"source": "digits"}, None)
    assert not is_stored(IMAGES, folder)
    (tmp_path / "cifar10").mkdir()
    shutil.copy(folder / "cifar10" / "train.parquet", tmp_path / "cifar10")
    assert not is_stored(FEATURES, tmp_path)


def test_images_are_the_first_rows(folder):
    sample = open_sample(IMAGES, folder)
    assert sample.X.shape == (60, 32, 32, 3)
    assert sample.test[0].shape == (20, 32, 32, 3)
    assert list(sample.label[:3]) == [0, 1, 2]


def test_webvision_is_read_as_published_with_both_test_sets(tmp_path):
    root = tmp_path / "webvision"
    synsets = [f"n{i:08d}" for i in range(1, 61)]
    (root / "info").mkdir(parents=True)
    (root / "info/synsets.txt").write_text("".join(f"{n} thing {n}\n" for n in synsets))
    lists = {"train_filelist_google": "google", "val_filelist": "val_images_256"}
    for name, images in lists.items():
        paths = [f"{'google/' * (images == 'google')}{c}.jpg" for c in (0, 1, 49, 59)]
        lines = [f"{path} {c}\n" for path, c in zip(paths, (0, 1, 49, 59), strict=True)]
        (root / f"info/{name}.txt").write_text("".join(lines))
        for c in (0, 1, 49, 59):
            picture(root / images / f"{c}.jpg")
    for c in (0, 1):
        picture(root / "imagenet" / "val" / synsets[c] / "1.jpg")
    given = {"source": "images", "dataset": "webvision-mini", "test": "val", "side": 16}
    sample = open_sample({**given, "transfer": "ilsvrc12"}, tmp_path)
    # The first 50 classes only, though the folder holds all of them.
    assert len(sample.label) == len(sample.test[1]) == 3
    assert len(sample.transfer[1]) == 2
    assert set(sample.transfer[1]) <= set(sample.label)
    assert sample.truth is None


def test_images_without_features_are_embedded_once(tmp_path, monkeypatch):
    from kspr.experiments.reproduce import data as _stored
    from kspr.experiments.reproduce.data import prepare
    from kspr.features import loading as selecting

    home = tmp_path / "cifar100"
    home.mkdir()
    rng = np.random.default_rng(0)
    for split, n in (("train", 12), ("test", 4)):
        table = {"img": [{"bytes": png(rng)} for _ in range(n)], "label": np.arange(n) % 3}
        pq.write_table(pa.table(table), home / f"{split}.parquet")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        _stored, "EmbedSettings", lambda: EmbedSettings(embedder=f"{__name__}:mean")
    )
    folders = []

    def counted(records, folder, *given, **named):
        folders.append(folder)
        return selecting.embed_records(records, folder, *given, **named)

    monkeypatch.setattr(_stored, "embed_records", counted)
    source = {"source": "features", "dataset": "cifar100"}
    prepare(source, tmp_path)
    sample = open_sample(source, tmp_path)
    assert sample.X.shape == (12, 3)
    assert sample.test[0].shape == (4, 3)
    assert len(set(folders)) == len(folders) == 2


def mean(images):
    """Embed an image as its mean colour."""
    return np.stack([np.asarray(image).mean(axis=(0, 1)) for image in images])
