"""`kspr embed`, and images from a folder to a cleaned folder."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import Selection
from tests.cli.commands import fails, run


def test_images_go_from_folder_to_cleaned_folder(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(photos)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    text = run(
        "select", "photos", "--embedder", "mine:pixels", "--out", tmp_path / "r", capsys=capsys
    )
    assert "1 items could not be read" in text
    selection = Selection.load(tmp_path / "r")
    assert len(selection) == 599
    run("report", tmp_path / "r")
    assert "data:image/jpeg;base64" in (tmp_path / "r" / "report.html").read_text()
    run("export", tmp_path / "r", "--to", "imagefolder", "--out", tmp_path / "clean")
    assert len(list((tmp_path / "clean").glob("*/*.png"))) == selection.clean_mask.sum()
    capsys.readouterr()
    message = fails(
        "select",
        "photos",
        "--embedder",
        "mine:pixels",
        "--strict",
        "--out",
        tmp_path / "s",
        capsys=capsys,
    )
    assert ".png" in message
    assert not (tmp_path / "s").exists()


def test_embed_then_select_is_the_same_as_select(photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run("embed", "photos", "--embedder", "mine:pixels", "--out", tmp_path / "f")
    features = tmp_path / "f" / "features.npy"
    run("select", features, "--labels", tmp_path / "f" / "rows.parquet", "--out", tmp_path / "a")
    run("select", "photos", "--embedder", "mine:pixels", "--out", tmp_path / "b")
    first, second = Selection.load(tmp_path / "a"), Selection.load(tmp_path / "b")
    assert np.array_equal(first.clean_mask, second.clean_mask)


def test_what_could_not_be_read_is_listed(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(photos)
    said = ["--embedder", "mine:pixels", "--out", tmp_path / "f"]
    text = run("embed", "photos", *said, capsys=capsys)
    assert "599 rows of 64 features" in text
    assert "1 items could not be read and were left out:\n  row " in text
    answer = json.loads(run("embed", "photos", *said, "--json", capsys=capsys))
    assert (answer["rows"], answer["dimensions"], len(answer["unreadable"])) == (599, 64, 1)


@pytest.fixture
def scheduler():
    """The address of a cluster with a worker that is a thread of this process."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_cluster_embeds_files_that_select_reads(tmp_path, monkeypatch, capsys, scheduler):
    monkeypatch.chdir(tmp_path)
    own = "import numpy as np\ndef f(b): return np.array([[len(t), ord(t[0])] for t in b], float)"
    (tmp_path / "letters_of_parts.py").write_text(own)
    (tmp_path / "parts").mkdir()
    for part in (0, 1):
        texts = [f"{'abc'[i % 3]}{'x' * (i % 5)}" for i in range(30)]
        table = pa.table({"text": texts, "label": [i % 3 for i in range(30)]})
        pq.write_table(table, tmp_path / "parts" / f"{part}.parquet")
    said = ["embed", "parts/*.parquet", "--embedder", "letters_of_parts:f"]
    said += ["--scheduler", scheduler]
    text = run(*said, "--out", "f", capsys=capsys)
    assert "60 rows of 2 features: f/*.parquet" in text
    assert f"Next: kspr select 'f/*.parquet' --scheduler {scheduler}" in text
    assert "2 of the files had been embedded" in run(*said, "--out", "f", capsys=capsys)
    answer = json.loads(run(*said, "--out", "f", "--json", capsys=capsys))
    assert (answer["rows"], answer["dimensions"], answer["unreadable"]) == (60, 2, {})
    run("select", "f/*.parquet", "--out", "run", "--q", "0.3")
    assert len(Selection.load(tmp_path / "run")) == 60
