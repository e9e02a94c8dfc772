"""Addresses, patterns and folders: which files they stand for."""

import uuid
from pathlib import Path

import pytest

from kspr.errors import InputError
from kspr.sources.formats import (
    absolute,
    address_of,
    exists,
    is_pattern,
    list_files,
    open_input,
)


@pytest.fixture
def memory():
    """A folder of fsspec's file system in memory, which Arrow does not know itself."""
    system = pytest.importorskip("fsspec").filesystem("memory")
    root = f"/{uuid.uuid4().hex}"
    for name in ("b.parquet", "a.parquet", ".hidden.parquet", "notes.txt", "deep/c.parquet"):
        system.pipe_file(f"{root}/{name}", name.encode())
    yield f"memory:/{root}"
    system.rm(root, recursive=True)


@pytest.fixture
def folder(tmp_path):
    for name in ("b.parquet", "a.parquet", "_SUCCESS", "notes.txt", "deep/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize("text", ["s3://bucket/parts", "gs://b/x*.parquet", "memory://a/b?c=d"])
def test_an_address_survives_being_a_path(text):
    assert address_of(Path(text)) == address_of(text) == text
    assert absolute(Path(text)) == text


@pytest.mark.parametrize("text", ["parts/x.parquet", "/a/b", "C:/data/x.csv", "a:b", "x:/"])
def test_paths_are_no_addresses(text):
    assert address_of(text) is None


def test_folders_and_patterns_stand_for_the_same_files(folder, memory):
    for root, place in ((str(folder), folder), (memory, memory)):
        expected = [f"{root}/a.parquet", f"{root}/b.parquet"]
        assert list_files(place, (".parquet",)) == expected
        assert list_files(f"{root}/*.parquet") == expected
        assert list_files(f"{root}/[b-z]*.parquet") == expected[1:]
        assert list_files(f"{root}/d*/*.parquet") == [f"{root}/deep/c.parquet"]
        assert list_files(expected[0]) == expected[:1]
        assert list_files(f"{root}/x*") == list_files(f"{root}/gone.parquet") == []
        assert exists(f"{root}/*.parquet")
        assert not exists(f"{root}/x*")


def test_a_pattern_may_be_relative(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert [Path(name) for name in list_files("*.parquet")] == [
        Path("a.parquet"),
        Path("b.parquet"),
    ]
    assert Path(absolute("*.parquet")) == folder / "*.parquet"


def test_a_file_whose_name_looks_like_a_pattern_is_itself(tmp_path):
    path = tmp_path / "data[1].parquet"
    path.write_text("x")
    assert not is_pattern(path)
    assert list_files(path) == [str(path)]
    assert is_pattern(tmp_path / "data[2].parquet")


def test_files_are_read_wherever_they_are(folder, memory):
    for root in (folder, memory):
        with open_input(f"{root}/a.parquet") as file:
            assert file.read() == b"a.parquet"


@pytest.mark.parametrize("address", ["s3://key:word@bucket/x.parquet", "s3://b/x?secret_key=word"])
def test_keys_in_an_address_are_refused_and_not_repeated(address):
    with pytest.raises(InputError, match="holds a key, which the run would keep") as caught:
        list_files(address)
    assert "word" not in str(caught.value)


def test_an_unknown_storage_system_is_one_sentence():
    with pytest.raises(InputError, match=r"nowhere://.* cannot be reached \(.*Check the address"):
        list_files("nowhere://bucket/x.parquet")
