"""Checks of files, damaged ones among them, and text as UTF-8."""

import errno
import gzip
import os
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source, open_table
from kspr.sources.readers.file_checks import (
    check_exists,
    check_file,
    listed,
    no_such,
    plain_text,
    readable,
    shown,
    unpacked_limit,
)


def test_long_lists_and_values_are_cut():
    assert listed("abc", most=2) == "'a', 'b' and 1 more"
    assert len(listed(["x" * 100])) <= 60
    assert len(shown("x" * 100)) <= 40
    assert shown("x" * 100).endswith("...'")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("LABEL", "Did you mean 'label'?"),
        ("lable", "Did you mean 'label'?"),
        ("zzz", "It has 'label', 'size'."),
    ],
)
def test_a_wrong_name_is_answered_with_near_ones_else_with_all(asked, hint):
    assert str(no_such(asked, ["label", "size"], "x.csv")).endswith(hint)
    assert str(no_such("a", [], "x.npz", "array")).endswith("It has no arrays.")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\x80\x05", "is a pickle, not a table"),
        (b"PAR1", "is a parquet file, not a table"),
        (b"\x89PNG", "is a PNG image, not a table"),
    ],
)
def test_a_file_of_another_kind_is_named_by_what_it_is(tmp_path, content, complaint):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        check_file(path, "a table")
    with pytest.raises(InputError, match="is a folder, not a table"):
        check_file(tmp_path, "a table")
    path.write_bytes(b"PAR1 and more")
    assert check_file(path, "a parquet file", b"PAR1") == b"PAR1 and more"


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (PermissionError(), "may not be read. Check its permissions"),
        (OSError(errno.ENOSPC, "full"), "There is no room for a temporary copy"),
        (
            OSError("broken"),
            r"cannot be read as a table; it may be cut short or damaged \(broken\)",
        ),
        (KeyError("name"), "it may be cut short or damaged"),
        (InputError("My own sentence."), r"^My own sentence\.$"),
    ],
)
def test_errors_of_libraries_become_one_sentence(tmp_path, error, complaint):
    def fail():
        with readable(tmp_path / "x", "a table"):
            raise error

    with pytest.raises(InputError, match=complaint):
        fail()


def test_a_mistake_of_ours_is_not_called_damage(tmp_path):
    def fail():
        with readable(tmp_path / "x", "a table"):
            raise AttributeError("a bug")

    with pytest.raises(AttributeError):
        fail()


@pytest.mark.parametrize("name", ["x.csv", "x.npy", "x.npz", "x.parquet", "x.arrow", "x.jsonl"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, refusal, features, name):
    os.mkfifo(tmp_path / name)
    assert f"{name} is a pipe or a device; kspr reads regular files only" in refusal(
        tmp_path / name
    )
    (tmp_path / "d.csv").symlink_to("/dev/zero")
    np.save(tmp_path / "features.npy", features)
    message = refusal(tmp_path / "features.npy", labels=tmp_path / "d.csv")
    assert "d.csv is a pipe or a device" in message


def test_a_name_that_is_too_long_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"cannot be opened \(file name too long\)"):
        check_exists(tmp_path / ("n" * 5_000))


@pytest.fixture
def files(tmp_path, table, features, names, picture):
    images = pa.table({"img": [picture(i) for i in range(30)], "label": names})
    lists = pa.table({"emb": features.tolist(), "label": names})
    pq.write_table(table, tmp_path / "a.parquet")
    pq.write_table(images, tmp_path / "b.parquet", row_group_size=7)
    pa.feather.write_feather(table, tmp_path / "a.feather", compression="lz4")
    pa.feather.write_feather(lists, tmp_path / "b.feather", compression="uncompressed")
    pa.feather.write_feather(images, tmp_path / "c.arrow", compression="uncompressed")
    np.savez(tmp_path / "a.npz", X=features, y=names)
    np.savez_compressed(tmp_path / "b.npz", X=features, y=names)
    np.save(tmp_path / "a.npy", features)
    table.to_pandas().to_csv(tmp_path / "a.csv", index=False)
    lists.to_pandas().to_csv(tmp_path / "b.csv", index=False)
    return sorted(tmp_path.iterdir())


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """Return the content with a few bytes changed, and sometimes without its end."""
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 6)):
        changed[place] = rng.integers(256)
    return bytes(changed[: rng.integers(len(changed))] if rng.random() < 0.3 else changed)


def use(path) -> bool:
    """Read what a file has to offer; return whether all labels, features and items could be."""
    with suppress(InputError):
        table = open_table(path)
        for batch in () if table is None else table.columns().walk():
            batch.to_pylist()
    try:
        found = open_source(path)
        if found.features is not None:
            np.asarray(found.features).tobytes()
        for row in range(len(found.items or ())):
            found.items[row]
    except InputError:
        return False
    return True


SEEDS = range(25)


@pytest.mark.filterwarnings("ignore")
def test_random_damage_is_survived_or_refused(files):
    """Nothing but `InputError` comes out; what is not damaged, or harmlessly so, is read.

    With these seeds about a tenth of the damaged files can still be read, less where checksums
    or decoders notice everything: readers that refused all, or noticed nothing, would fail.
    """
    read = dict.fromkeys((path.name for path in files), 0)
    for path in files:
        whole = path.read_bytes()
        assert use(path)
        for seed in SEEDS:
            path.write_bytes(damaged(whole, np.random.default_rng(seed)))
            read[path.name] += use(path)
        path.write_bytes(whole)
        assert use(path)
    total = sum(read.values()) / (len(SEEDS) * len(files))
    assert 0.05 < total < 0.5, read


def harmless(path, content: bytes) -> list[bytes]:
    """Return other files that hold the same rows: changed in padding, names of tools, line ends."""
    if path.suffix == ".csv":
        return [content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + content, content + b"\n\n"]
    if path.suffix in (".parquet", ".npz"):
        # A parquet footer names the program that wrote it; a zip archive may have a comment.
        named = content.replace(b"parquet-cpp-arrow", b"parquet-CPP-arrow")
        commented = content[:-2] + (7).to_bytes(2, "little") + b"comment"
        return [named] if path.suffix == ".parquet" else [commented]
    if path.suffix == ".npy":
        # The header is padded with spaces, and what follows the numbers is not read.
        end = content.index(b"\n")
        return [content[: end - 1] + b"\t" + content[end:], content + b"trailing"]
    return []


def test_harmless_changes_are_not_refused(files):
    changed = 0
    for path in files:
        whole = path.read_bytes()
        expected = open_source(path)
        for content in harmless(path, whole):
            assert content != whole
            path.write_bytes(content)
            assert use(path), path
            found = open_source(path)
            assert found.row_id.tolist() == expected.row_id.tolist()
            np.testing.assert_array_equal(found.features, expected.features)
            changed += 1
        path.write_bytes(whole)
    assert changed >= 10


def test_a_plain_file_is_not_copied(text_file):
    path = text_file("x")
    assert plain_text(path, "text").copy is None


@pytest.mark.parametrize("length", [0, 1, (1 << 20) - 1, (1 << 20) + 1])
def test_characters_across_blocks_are_kept(text_file, length):
    content = "a" * length + "€ß"
    path = text_file(gzip.compress(content.encode("utf-16")), "x.txt.gz")
    assert plain_text(path, "text").whole() == content


def test_a_copy_has_no_name_that_a_killed_process_could_leave(text_file, tmp_path, monkeypatch):
    path = text_file("é".encode("latin-1"))
    (tmp_path / "copies").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "copies"))
    text = plain_text(path, "text", "latin-1")
    assert text.whole() == "é"
    assert list((tmp_path / "copies").iterdir()) == []


def test_a_small_file_unpacks_to_a_gigabyte_and_a_large_one_to_what_data_do():
    assert unpacked_limit(1 << 10) == 10**9
    assert unpacked_limit(10**9) == 200 * 10**9


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.parquet", "x.arrow"])
def test_a_source_may_have_so_many_rows_only(tmp_path, refusal, monkeypatch, name):
    table, path = pa.table({"a": np.arange(3000.0), "label": np.arange(3000) % 2}), tmp_path / name
    if name == "x.parquet":
        pq.write_table(table, path)
    elif name == "x.arrow":
        pa.feather.write_feather(table, path)
    else:
        content = table.to_pandas().to_csv(index=False).encode()
        path.write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    monkeypatch.setenv("KSPR_MAX_MILLION_ROWS", "0.002")
    assert "has more than 0.002 million rows, which is what the memory" in refusal(path)
    monkeypatch.setenv("KSPR_MAX_MILLION_ROWS", "0.003")
    assert len(open_source(path)) == 3000


def test_a_text_that_ends_within_a_character_is_refused(text_file):
    with pytest.raises(InputError, match=r"x.csv is not utf-16: it has the byte"):
        plain_text(text_file("ab".encode("utf-16") + b"c"), "text")
