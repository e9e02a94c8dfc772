"""Embedding on a cluster: the features of one machine, and what is there is not made again."""

import itertools
import os
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.features.loading import embed_source
from kspr.features.options import EmbedSettings
from kspr.runs import cluster_embed
from kspr.runs.cluster_embed import _loaded, embed_on_cluster
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.selectors import KnockoffsSPR
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions
from tests.selectors.clusters import HereCluster

MODULE = """
import os
import numpy as np

with open({log!r}, "a") as log:
    log.write(f"loaded {{os.getpid()}}\\n")


def embed(batch):
    with open({log!r}, "a") as log:
        log.writelines(f"{{text}}\\n" for text in batch)
    return np.array([[len(t), ord(t[0]), int(t[1:]) % 7] for t in batch], dtype=float)
"""
_numbers = itertools.count()


@pytest.fixture
def own(tmp_path, monkeypatch) -> tuple[EmbedSettings, Path]:
    """An embedder of the user's own in the current folder, and what it writes down."""
    monkeypatch.chdir(tmp_path)
    name, log = f"own_cluster_embedder_{next(_numbers)}", tmp_path / "log.txt"
    Path(f"{name}.py").write_text(MODULE.format(log=str(log)))
    return EmbedSettings(embedder=f"{name}:embed", batch_size=8), log


@pytest.fixture
def here(monkeypatch):
    @contextmanager
    def opened(_):
        yield HereCluster()

    monkeypatch.setattr(cluster_embed, "opened_cluster", opened)


def write_parts(folder: Path, *cuts: int, n: int = 60) -> Path:
    """Write texts with a label each; every 20th has none."""
    folder.mkdir(exist_ok=True)
    for number, (a, b) in enumerate(itertools.pairwise([0, *cuts, n])):
        texts = [f"{'ab'[i % 2]}{i}" for i in range(a, b)]
        label = [None if i % 20 == 19 else "xyz"[i % 3] for i in range(a, b)]
        columns = {"text": texts, "label": pa.array(label, pa.string())}
        pq.write_table(pa.table(columns), folder / f"p{number}.parquet")
    return folder / "*.parquet"


def embed(source: Path, out: Path, settings: EmbedSettings, options=None, **more):
    return embed_on_cluster(
        source, out, options=options or ReadOptions(), settings=settings, **more
    )


def test_features_are_those_of_one_machine_and_select_reads_them(tmp_path, here, own):
    settings, _ = own
    source = write_parts(tmp_path / "parts", 25, 25, 40)
    made = embed(source, tmp_path / "out", settings)
    assert (made.rows, made.dimensions, made.found) == (60, 3, 0)
    alone = embed_source(
        source, tmp_path / "alone", options=ReadOptions(), settings=settings, overwrite=False
    )
    records = open_source(tmp_path / "out" / "*.parquet", ReadOptions(missing="drop"))
    np.testing.assert_array_equal(records.features, alone.features)
    assert records.row_id[59] == "59"
    rows = pq.read_table(tmp_path / "alone" / "rows.parquet")
    parts = pa.concat_tables(pq.read_table(p) for p in sorted((tmp_path / "out").glob("*.parquet")))
    assert parts["label"].to_pylist() == rows["label"].to_pylist()
    run = select_source(
        tmp_path / "out" / "*.parquet",
        tmp_path / "run",
        KnockoffsSPR(q=0.4, progress=False),
        options=ReadOptions(missing="drop"),
        settings=settings,
        command=(),
    )
    assert len(run.selection) == 57
    assert load_run(tmp_path / "run").joined.whole


def test_finished_parts_are_not_made_again_unless_their_items_change(tmp_path, here, own):
    settings, log = own
    source = write_parts(tmp_path / "parts", 20, 40)
    embed(source, tmp_path / "out", settings)
    before = sorted(p.read_bytes() for p in (tmp_path / "out").glob("*.parquet"))
    # As after a stop: one part is missing, one is damaged, and one is of other items.
    files = sorted((tmp_path / "out").glob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:50])
    log.write_text("")
    again = embed(source, tmp_path / "out", settings)
    assert again.found == 1
    assert len(log.read_text().splitlines()) == 40
    assert sorted(p.read_bytes() for p in (tmp_path / "out").glob("*.parquet")) == before
    table = pq.read_table(tmp_path / "parts" / "p2.parquet")
    changed = table.set_column(0, "text", pa.array(["c7", *table["text"].to_pylist()[1:]]))
    pq.write_table(changed, tmp_path / "parts" / "p2.parquet")
    log.write_text("")
    assert embed(source, tmp_path / "out", settings).found == 2
    assert "c7" in log.read_text()
    # A file that is gone takes its part along.
    (tmp_path / "parts" / "p2.parquet").unlink()
    assert embed(source, tmp_path / "out", settings).rows == 40
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2


def test_weights_are_loaded_once_by_a_worker(tmp_path, here, own, monkeypatch):
    settings, _ = own
    loads = []
    load = cluster_embed.load_embedder
    monkeypatch.setattr(
        cluster_embed, "load_embedder", lambda *a, **k: loads.append(a) or load(*a, **k)
    )
    _loaded.cache_clear()
    embed(write_parts(tmp_path / "parts", 10, 20, 30, 40), tmp_path / "out", settings)
    assert len(loads) == 1


def test_items_that_cannot_be_read_are_listed_by_their_row_of_the_source(tmp_path, here, own):
    settings, _ = own
    folder = tmp_path / "parts"
    folder.mkdir()
    for number, texts in enumerate(([b"a1", b"b2"], [b"a3", b"\xff\xfe"], [b"\xff", b"\xfe\xff"])):
        cells = pa.array(texts, pa.binary()).view(pa.binary())
        columns = {"text": pa.Array.from_buffers(pa.string(), 2, cells.buffers()), "label": [0, 1]}
        pq.write_table(pa.table(columns), folder / f"p{number}.parquet")
    made = embed(folder / "*.parquet", tmp_path / "out", settings)
    assert made.rows == 3
    assert sorted(made.unreadable) == [3, 4, 5]
    # A part of which nothing could be read leaves no file.
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2
    strict = EmbedSettings(**{**vars(settings), "strict": True})
    with pytest.raises(InputError, match="cannot be read, the first in row 3"):
        embed(folder / "*.parquet", tmp_path / "strict", strict)


def test_what_cannot_be_embedded_is_refused_in_a_sentence(tmp_path, here, own):
    settings, _ = own
    source = write_parts(tmp_path / "parts", 20)
    pq.write_table(pa.table({"f0": [0.5, 1.5], "label": [0, 1]}), tmp_path / "t.parquet")
    (tmp_path / "f.csv").write_text("text,label\na1,0\nb2,1\n")
    with pytest.raises(InputError, match="holds features already"):
        embed(tmp_path / "t.parquet", tmp_path / "out", settings)
    with pytest.raises(InputError, match="reads parquet and Arrow files"):
        embed(tmp_path / "f.csv", tmp_path / "out", settings)
    with pytest.raises(InputError, match="--labels does not go with --engine dask"):
        embed(source, tmp_path / "out", settings, ReadOptions(labels=Path("labels.csv")))
    assert not (tmp_path / "out").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds files that are no embedding of a cluster"):
        embed(source, tmp_path / "mine", settings)
    with pytest.raises(InputError, match="is a file; the features need a folder"):
        embed(source, tmp_path / "t.parquet", settings)
    embed(source, tmp_path / "out", settings)
    half = EmbedSettings(**{**vars(settings), "half": True})
    with pytest.raises(InputError, match="holds another embedding"):
        embed(source, tmp_path / "out", half)
    assert embed(source, tmp_path / "out", half, overwrite=True).found == 0
    found = open_source(tmp_path / "out" / "*.parquet", ReadOptions(missing="drop"))
    assert found.features.shape == (60, 3)


def test_workers_of_their_own_process_embed(tmp_path, own, monkeypatch):
    pytest.importorskip("distributed")
    from kspr.selectors.engines.cluster import local_cluster

    # Processes that are started import the user's module from the current folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))

    @contextmanager
    def two(_):
        with local_cluster(2) as cluster:
            yield cluster

    monkeypatch.setattr(cluster_embed, "opened_cluster", two)
    settings, log = own
    made = embed(write_parts(tmp_path / "parts", 15, 30, 45), tmp_path / "out", settings)
    assert made.rows == 60
    loaded = [line for line in log.read_text().splitlines() if line.startswith("loaded")]
    # By each process once at most, and not by this one.
    assert len(loaded) == len(set(loaded)) <= 3
    assert len([line for line in log.read_text().splitlines() if line[0] in "ab"]) == 60
