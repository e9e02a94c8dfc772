"""Manifests and shards of a folder of features."""

import json
import os
import zipfile
from dataclasses import asdict

import numpy as np
import pytest

from kspr._files import write_json
from kspr.errors import InputError
from kspr.features._store import (
    EmbeddingManifest,
    Shard,
    claim,
    clear,
    content_fingerprint,
    join,
    open_features,
    read_notes,
    shard_is_whole,
    write_shard,
)

MANIFEST = EmbeddingManifest("text", "minilm", None, "1.0", "float32", 4, "abc", 2)


def shard(rows, unreadable=(), width=3):
    return Shard(
        np.array(rows), np.ones((len(rows), width), np.float32), {r: f"no {r}" for r in unreadable}
    )


@pytest.mark.parametrize("other", [[b"ab"], [b"a", b"b", b""], [b"b", b"a"], []])
def test_a_fingerprint_depends_on_bytes_order_and_rows(other):
    assert content_fingerprint([b"a", b"b"]) == content_fingerprint(iter([b"a", b"b"]))
    assert content_fingerprint(other) != content_fingerprint([b"a", b"b"])


def test_a_folder_keeps_the_manifest_it_began_with(tmp_path):
    assert claim(tmp_path, MANIFEST, overwrite=False) is MANIFEST
    write_json(tmp_path / "manifest.json", asdict(MANIFEST))
    later = EmbeddingManifest(**{**vars(MANIFEST), "shard_rows": 9, "versions": {"numpy": "9"}})
    assert claim(tmp_path, later, overwrite=False) == MANIFEST


WRONG = (
    {**vars(MANIFEST), "shard_rows": "x"},
    {**vars(MANIFEST), "shard_rows": 0},
    {**vars(MANIFEST), "versions": {"numpy": "\ud800"}},
)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"format": "other"}', *map(json.dumps, WRONG)]
)
def test_a_damaged_manifest_is_no_embedding(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError, match="no embedding; they are left alone"):
        claim(tmp_path, MANIFEST, overwrite=True)


def test_a_shard_is_whole_if_it_has_exactly_its_rows(tmp_path):
    path = tmp_path / "000000.npz"
    assert not shard_is_whole(path, range(3))
    write_shard(path, shard([0, 2], unreadable=[1]))
    assert shard_is_whole(path, range(3))
    assert not shard_is_whole(path, range(4))
    assert read_notes([path]) == ({1: "no 1"}, [])


def test_shards_are_joined_in_order_and_of_one_width(tmp_path):
    paths = [tmp_path / f"{k}.npz" for k in range(3)]
    for k, path in enumerate(paths):
        rows = shard([2 * k, 2 * k + 1])
        rows.features[:] = k
        write_shard(path, rows)
    join(paths, tmp_path / "features.npy", 6, np.dtype("float32"))
    found = np.load(tmp_path / "features.npy")
    assert (found.dtype, found[:, 0].tolist()) == (np.float32, [0, 0, 1, 1, 2, 2])
    write_shard(paths[1], shard([2, 3], width=5))
    with pytest.raises(InputError, match=r"rows of \[3, 5\] features"):
        join(paths, tmp_path / "features.npy", 6, np.dtype("float32"))


def test_a_damaged_shard_is_not_joined(tmp_path):
    path = tmp_path / "0.npz"
    write_shard(path, shard([0, 1]))
    whole = path.read_bytes()
    one = np.ones(6, np.float32).tobytes()
    path.write_bytes(whole.replace(one, one[:-1] + b"\x40"))
    with pytest.raises(zipfile.BadZipFile):
        join([path], tmp_path / "features.npy", 2, np.dtype("float32"))
    assert not (tmp_path / "features.npy").exists()


def test_clearing_removes_the_embedding_and_nothing_else(tmp_path):
    write_json(tmp_path / "manifest.json", asdict(MANIFEST))
    write_shard(tmp_path / "shards" / "000000.npz", shard([0]))
    (tmp_path / "rows.parquet").write_text("mine")
    clear(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


@pytest.mark.parametrize("how", ["header", "pipe", "columns", "texts", "one row"])
def test_damaged_features_are_a_value_error(tmp_path, how):
    path = tmp_path / "features.npy"
    arrays = {"columns": np.zeros((3, 0), "f4"), "texts": np.array([["x"]]), "one row": np.zeros(3)}
    if how == "pipe":
        os.mkfifo(path)
    else:
        np.save(path, arrays.get(how, np.zeros((3, 2), np.float32)))
    if how == "header":
        # NumPy reads the header as Python, and an open bracket never ends.
        path.write_bytes(path.read_bytes().replace(b"(3, 2)", b"(3, 2("))
    with pytest.raises(ValueError, match="features"):
        open_features(path)


def test_a_shard_with_damaged_features_is_not_whole(tmp_path):
    path = tmp_path / "0.npz"
    write_shard(path, Shard(np.arange(2), np.full((2, 50), 7, np.float32), {}))
    assert shard_is_whole(path, range(2))
    content = path.read_bytes()
    number = np.float32(7).tobytes()
    place = content.index(number * 20)
    path.write_bytes(content[:place] + bytes(4) + content[place + 4 :])
    assert not shard_is_whole(path, range(2))
