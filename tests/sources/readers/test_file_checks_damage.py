"""Damage of any kind ends in one sentence: no traceback, no crash, no temporary file."""

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.opening import open_source, open_table


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
