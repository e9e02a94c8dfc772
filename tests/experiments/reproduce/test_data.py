"""Samples: data on disk, with files of the right shape for CIFAR-10, generated data, and noise."""

import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr.errors import InputError
from kspr.experiments.reproduce.data import (
    GENERATED,
    absent,
    corrupted,
    describe,
    identity,
    open_sample,
)
from kspr.sources.options import EmbedSettings
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


def test_noise_has_the_rate_of_its_name(folder):
    sample = open_sample(FEATURES, folder)
    noisy = corrupted(sample, "Sym. 40 %", 0)
    assert (noisy.label != sample.truth).mean() == 0.4
    asymmetric = corrupted(sample, "Asy. 30 %", 0)
    changed = asymmetric.label != sample.truth
    # Five classes of CIFAR-10 have a partner.
    assert changed.mean() == pytest.approx(0.15)
    assert set(sample.truth[changed]) == {2, 3, 4, 5, 9}
    assert corrupted(sample, "as found", 0) is sample


@pytest.mark.parametrize("name", GENERATED)
def test_made_samples_are_the_same_every_time_and_fit_together(name):
    given = {"classes": 3, "per_class": 20} if name == "made" else {}
    first, second = GENERATED[name](**given), GENERATED[name](**given)
    assert np.array_equal(first.X, second.X)
    assert len(first.X) == len(first.label) == len(first.truth)
    assert len(first.test[0]) == len(first.test[1])


def test_made_data_may_come_with_wrong_labels():
    sample = GENERATED["made"](classes=4, per_class=50, wrong=0.2)
    assert (sample.label != sample.truth).mean() == pytest.approx(0.2)


def test_rows_are_chosen_with_their_labels():
    sample = GENERATED["digits"]()
    chosen = sample.only(np.arange(len(sample.label)) % 2 == 0)
    assert np.array_equal(chosen.label, sample.label[::2])
    assert np.array_equal(chosen.X, sample.X[::2])
    few = sample.only(slice(7))
    assert len(few.X) == len(few.label) == len(few.truth) == 7


def test_noise_needs_true_labels():
    sample = replace(GENERATED["digits"](), truth=None)
    with pytest.raises(InputError, match="has no true labels"):
        corrupted(sample, "Sym. 40 %", 0)
