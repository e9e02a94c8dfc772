"""Every published data set keeps to one protocol, and is found where users put it."""

from pathlib import Path

import pytest

from kspr.errors import InputError
from kspr.sources.opening import (
    PUBLISHED,
    find_published,
    find_root,
    list_published,
    open_source,
    where,
)
from kspr.sources.options import ReadOptions


@pytest.mark.parametrize("dataset", PUBLISHED, ids=lambda d: d.name)
def test_every_data_set_describes_itself(dataset, tmp_path):
    assert find_published(dataset.name) is dataset
    assert dataset.about
    assert "\n" not in dataset.about
    assert dataset.files(tmp_path)
    assert all(purpose for _, purpose in dataset.files(tmp_path))
    assert not dataset.present(tmp_path)
    assert not dataset.matches(tmp_path)
    assert not dataset.matches(tmp_path / "absent")
    for split in (None, *dataset.splits):
        with pytest.raises(InputError, match=r" is missing; it comes with "):
            dataset.read(tmp_path, ReadOptions(split=split))
    for name in ("data_batch_1", "train", "meta"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match="has no split 'nonsense'"):
        dataset.read(tmp_path, ReadOptions(split="nonsense"))


def test_each_folder_is_known_to_one_data_set(cifar10, cifar100, webvision, clothing1m):
    folders = {
        cifar10.python(): "cifar10",
        cifar10.binary(): "cifar10",
        cifar100.python(): "cifar100",
        cifar100.binary(): "cifar100",
        webvision: "webvision",
        clothing1m: "clothing1m",
    }
    for folder, name in folders.items():
        known = [d.name for d in PUBLISHED if d.matches(folder)]
        assert known == [name]


def test_a_path_is_enough_to_read_one(cifar10, clothing1m):
    assert open_source(cifar10.python(), ReadOptions()).reader == "cifar10"
    assert open_source(clothing1m, ReadOptions()).reader == "clothing1m"


def test_the_users_folder_goes_before_the_others(tmp_path, monkeypatch, cifar10):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KSPR_DATA", raising=False)
    assert where("cifar10") == [Path("data/cifar10"), tmp_path / "home/.cache/kspr/cifar10"]
    assert find_root("cifar10") is None
    Path("data").mkdir()
    cifar10.python().rename("data/cifar10")
    assert find_root("cifar10") == Path("data/cifar10")
    monkeypatch.setenv("KSPR_DATA", str(tmp_path))
    assert where("cifar10")[0] == tmp_path / "cifar10"
    cifar10.binary().rename(tmp_path / "cifar10")
    assert find_root("cifar10") == tmp_path / "cifar10"


def test_mini_is_found_in_the_whole_sets_folder(tmp_path, monkeypatch, webvision):
    monkeypatch.setenv("KSPR_DATA", str(webvision.parent))
    assert find_root("webvision-mini") == webvision


def test_the_listing_covers_every_data_set():
    assert [known["name"] for known in list_published()] == [d.name for d in PUBLISHED]


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(InputError, match="no data set 'cifar'; there are cifar10, cifar100"):
        find_root("cifar")
