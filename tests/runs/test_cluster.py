"""Runs from files that workers read: those of one machine; and embedding part by part."""

import csv
import itertools
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.features.loading import embed_source
from kspr.runs.cluster import embed_on_cluster
from kspr.runs.run import Run, load_run
from kspr.runs.select import select_source
from kspr.selectors import KnockoffsSPR
from kspr.sources.opening import open_source
from kspr.sources.options import AS_SHIPPED, EmbedSettings, ReadOptions
from tests.cli import commands
from tests.selectors.test_cluster import noisy_data
from tests.selectors.test_parts import assert_same_bits

distributed = pytest.importorskip("distributed")
X, y = noisy_data(900)
NAMES = np.array(["ant", "bee", "cat", "doe"])


@pytest.fixture(scope="module")
def scheduler():
    """The address of a cluster with two workers that are threads of this process."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def write_parts(folder: Path, *cuts: int, **columns) -> Path:
    folder.mkdir(exist_ok=True)
    for number, (a, b) in enumerate(itertools.pairwise([0, *cuts, 900])):
        table = {f"f{j}": X[a:b, j] for j in range(12)}
        table |= {"label": NAMES[y[a:b]], **{name: v[a:b] for name, v in columns.items()}}
        pq.write_table(pa.table(table), folder / f"p{number}.parquet", row_group_size=100)
    return folder / "*.parquet"


def select(source: Path, out: Path, scheduler=None, options=None, checked=None, **choices) -> Run:
    return select_source(
        source,
        out,
        KnockoffsSPR(q=0.1, progress=False, **{"fit_rows": 250, **choices}),
        options=options or ReadOptions(),
        settings=AS_SHIPPED,
        command=("kspr", "select"),
        checked=checked,
        scheduler=scheduler,
    )


CHOICES = ({}, {"cut": "per_class"}, {"fit_rows": None}, {"level": "f1"})


@pytest.mark.parametrize("choices", CHOICES, ids=str)
def test_a_run_of_a_cluster_is_that_of_one_machine(tmp_path, scheduler, choices):
    source = write_parts(tmp_path / "parts", 200, 200, 650)
    here = select(source, tmp_path / "here", **choices)
    there = select(source, tmp_path / "there", scheduler, **choices)
    assert_same_bits(here.selection, load_run(tmp_path / "there").selection)
    assert here.selection.manifest == there.selection.manifest
    np.testing.assert_array_equal(here.row_id, there.row_id)
    np.testing.assert_array_equal(here.rows.digest, there.rows.digest)
    # The rows are the same ones of the source.
    assert there.joined.whole
    assert there.features().shape == (900, 12)
    assert not list(tmp_path.glob(".*"))


def test_data_that_cannot_be_selected_from_leaves_nothing_behind(tmp_path, scheduler):
    source = write_parts(tmp_path / "parts", 300)
    part = tmp_path / "parts" / "p0.parquet"
    table = pq.read_table(part)
    label = ["dodo", *table["label"].to_pylist()[1:]]
    pq.write_table(table.set_column(12, "label", pa.array(label)), part)
    with pytest.raises(InputError, match="Class 'dodo' has 1 sample"):
        select(source, tmp_path / "run", scheduler)
    assert {path.name for path in tmp_path.iterdir()} == {"parts"}


def test_rows_without_labels_are_left_out_if_asked(tmp_path, scheduler):
    source = write_parts(tmp_path / "parts", 300)
    part = tmp_path / "parts" / "p0.parquet"
    table = pq.read_table(part)
    label = [None, *table["label"].to_pylist()[1:]]
    pq.write_table(table.set_column(12, "label", pa.array(label)), part)
    with pytest.raises(InputError, match="no label"):
        select(source, tmp_path / "run", scheduler)
    options = ReadOptions(missing="drop")
    there = select(source, tmp_path / "run", scheduler, options)
    assert there.row[:2].tolist() == [1, 2]
    assert "1 rows have no label and are left out." in there.origin.notes
    assert_same_bits(select(source, tmp_path / "here", None, options).selection, there.selection)


def test_named_rows_and_groups_are_read(tmp_path, scheduler):
    ids = np.array([f"row-{i}" for i in range(900)])
    source = write_parts(tmp_path / "parts", 300, name=ids, film=np.arange(900) // 4)
    options = ReadOptions(id="name", groups="film")
    there = select(source, tmp_path / "there", scheduler, options)
    assert there.row_id[899] == "row-899"
    assert_same_bits(select(source, tmp_path / "here", None, options).selection, there.selection)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ReadOptions(labels=Path("labels.csv")), "--labels does not go with --scheduler"),
        (ReadOptions(annotators="a_*"), "--annotators does not go with"),
    ],
)
def test_what_needs_several_files_at_once_is_refused(tmp_path, scheduler, options, words):
    with pytest.raises(InputError, match=words):
        select(write_parts(tmp_path / "parts"), tmp_path / "run", scheduler, options)


def test_other_sources_and_other_columns_are_refused_in_a_sentence(tmp_path, scheduler):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match="is for parquet and Arrow files"):
        select(tmp_path / "x.npy", tmp_path / "run", scheduler)
    source = write_parts(tmp_path / "parts", 300)
    with pytest.raises(InputError, match=r"no column 'lable'\. Did you mean 'label'"):
        select(source, tmp_path / "run", scheduler, ReadOptions(label="lable"))
    pq.write_table(pa.table({"label": NAMES[y]}), tmp_path / "parts" / "p9.parquet")
    with pytest.raises(InputError, match="must have the same columns"):
        select(source, tmp_path / "run", scheduler)
    pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="has no features"):
        select(tmp_path / "t.parquet", tmp_path / "run", scheduler)


def test_checked_rows_give_the_run_of_one_machine(tmp_path, scheduler):
    source, checked = write_parts(tmp_path / "parts", 300), tmp_path / "checked.csv"
    rows = [f"{i},{NAMES[y[i]]},all" for i in range(0, 900, 7)]
    checked.write_text("\n".join(["row,true_label,drawn_from", *rows]))
    here = select(source, tmp_path / "here", checked=checked)
    there = select(source, tmp_path / "there", scheduler, checked=checked)
    assert_same_bits(here.selection, there.selection)
    checked.write_text("row,true_label\n9999,ant\n")
    with pytest.raises(InputError, match="9999"):
        select(source, tmp_path / "other", scheduler, checked=checked)
    assert not (tmp_path / "other").exists()


def test_a_run_of_a_cluster_is_verified_reported_and_exported(tmp_path, scheduler):
    source, run = write_parts(tmp_path / "parts", 300, 650), tmp_path / "run"
    commands.run("select", source, "--q", "0.1", "--scheduler", scheduler, "--out", run)
    before = load_run(run).selection.clean_mask.sum()
    checks = tmp_path / "checks.csv"
    commands.run("verify", run, "--checks", "100", "--out", checks)
    with checks.open(newline="") as file:
        drawn = list(csv.DictReader(file))
    assert len(drawn) == 100
    assert drawn[0]["label"] == NAMES[y[int(drawn[0]["row"])]]
    with checks.open("w", newline="") as file:
        writer = csv.DictWriter(file, drawn[0])
        writer.writeheader()
        writer.writerows({**row, "true_label": row["label"]} for row in drawn)
    commands.run("verify", run, "--answers", checks)
    after = load_run(run).selection
    assert (after.cut_groups.status == "checked").all()
    assert after.clean_mask.sum() > before
    commands.run("report", run)
    assert "<html" in (run / "report.html").read_text()
    commands.run("export", run, "--to", "parquet", "--out", tmp_path / "clean.parquet")
    assert pq.read_metadata(tmp_path / "clean.parquet").num_rows == after.clean_mask.sum()


@pytest.fixture(scope="module")
def bucket():
    """An object store on loopback: moto's server, which `make test-store` puts beside the tests."""
    server = Path(__file__).resolve().parents[2] / ".venv-store" / "bin" / "moto_server"
    if not server.exists():
        pytest.skip("make test-store installs the object store")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    process = subprocess.Popen(
        [server, "-H", "127.0.0.1", "-p", port],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            with suppress(OSError), socket.create_connection(("127.0.0.1", int(port)), 1):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def test_files_of_an_object_store_are_read_by_their_address(
    tmp_path, scheduler, bucket, monkeypatch
):
    from pyarrow import fs

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{bucket}")
    source = write_parts(tmp_path / "parts", 300)
    store = fs.S3FileSystem(
        endpoint_override=bucket, scheme="http", allow_bucket_creation=True, region="us-east-1"
    )
    store.create_dir("data")
    fs.copy_files(
        str(tmp_path / "parts"), "data/parts", destination_filesystem=store, use_threads=False
    )
    select(Path("s3://data/parts/*.parquet"), tmp_path / "there", scheduler)
    select(source, tmp_path / "here")
    runs = [load_run(tmp_path / name) for name in ("here", "there")]
    assert_same_bits(*(run.selection for run in runs))


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


def write_texts(folder: Path, *cuts: int, n: int = 60) -> Path:
    """Write texts with a label each; every 20th has none."""
    folder.mkdir(exist_ok=True)
    for number, (a, b) in enumerate(itertools.pairwise([0, *cuts, n])):
        texts = [f"{'ab'[i % 2]}{i}" for i in range(a, b)]
        label = [None if i % 20 == 19 else "xyz"[i % 3] for i in range(a, b)]
        columns = {"text": texts, "label": pa.array(label, pa.string())}
        pq.write_table(pa.table(columns), folder / f"p{number}.parquet")
    return folder / "*.parquet"


@pytest.fixture
def embed(scheduler):
    def embed(source: Path, out: Path, settings: EmbedSettings, options=None, **more):
        return embed_on_cluster(
            source,
            out,
            options=options or ReadOptions(),
            settings=settings,
            scheduler=scheduler,
            **more,
        )

    return embed


def test_features_are_those_of_one_machine_and_select_reads_them(tmp_path, embed, own):
    settings, _ = own
    source = write_texts(tmp_path / "parts", 25, 25, 40)
    made = embed(source, tmp_path / "out", settings)
    assert (made.rows, made.dimensions, made.reused) == (60, 3, 0)
    alone = embed_source(
        source, tmp_path / "alone", options=ReadOptions(), settings=settings, overwrite=False
    )
    records = open_source(tmp_path / "out" / "*.parquet", ReadOptions(missing="drop"))
    np.testing.assert_array_equal(records.features, alone.features)
    assert records.row_id[59] == "59"
    rows = pq.read_table(tmp_path / "alone" / "rows.parquet")
    parts = pa.concat_tables(pq.read_table(p) for p in sorted((tmp_path / "out").glob("*.parquet")))
    assert parts["label"].to_pylist() == rows["label"].to_pylist()
    assert parts["row"].to_pylist() == list(range(60))
    assert parts["id"].to_pylist() == [str(row) for row in range(60)]
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


def test_finished_parts_are_not_made_again_unless_their_items_change(tmp_path, embed, own):
    settings, log = own
    source = write_texts(tmp_path / "parts", 20, 40)
    embed(source, tmp_path / "out", settings)
    before = sorted(p.read_bytes() for p in (tmp_path / "out").glob("*.parquet"))
    # As after a stop: one part is missing, one is damaged, and one is of other items.
    files = sorted((tmp_path / "out").glob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:50])
    log.write_text("")
    again = embed(source, tmp_path / "out", settings)
    assert again.reused == 1
    assert len(log.read_text().splitlines()) == 40
    assert sorted(p.read_bytes() for p in (tmp_path / "out").glob("*.parquet")) == before
    table = pq.read_table(tmp_path / "parts" / "p2.parquet")
    changed = table.set_column(0, "text", pa.array(["c7", *table["text"].to_pylist()[1:]]))
    pq.write_table(changed, tmp_path / "parts" / "p2.parquet")
    log.write_text("")
    assert embed(source, tmp_path / "out", settings).reused == 2
    assert "c7" in log.read_text()
    # A file that is gone takes its part along.
    (tmp_path / "parts" / "p2.parquet").unlink()
    assert embed(source, tmp_path / "out", settings).rows == 40
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 2


def test_items_that_cannot_be_read_are_listed_by_their_row_of_the_source(tmp_path, embed, own):
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


def test_what_cannot_be_embedded_is_refused_in_a_sentence(tmp_path, embed, own):
    settings, _ = own
    source = write_texts(tmp_path / "parts", 20)
    pq.write_table(pa.table({"f0": [0.5, 1.5], "label": [0, 1]}), tmp_path / "t.parquet")
    (tmp_path / "f.csv").write_text("text,label\na1,0\nb2,1\n")
    with pytest.raises(InputError, match="holds features already"):
        embed(tmp_path / "t.parquet", tmp_path / "out", settings)
    with pytest.raises(InputError, match="is for parquet and Arrow files"):
        embed(tmp_path / "f.csv", tmp_path / "out", settings)
    with pytest.raises(InputError, match="--labels does not go with --scheduler"):
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
    assert embed(source, tmp_path / "out", half, overwrite=True).reused == 0
    found = open_source(tmp_path / "out" / "*.parquet", ReadOptions(missing="drop"))
    assert found.features.shape == (60, 3)


def test_workers_of_their_own_process_embed(tmp_path, own, monkeypatch):
    # Processes that are started import the user's module from the current folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    settings, log = own
    made = embed_on_cluster(
        write_texts(tmp_path / "parts", 15, 30, 45),
        tmp_path / "out",
        options=ReadOptions(),
        settings=settings,
        scheduler="local",
    )
    assert made.rows == 60
    lines = log.read_text().splitlines()
    loaded = [line for line in lines if line.startswith("loaded")]
    # By each process once at most, and not by this one.
    assert len(loaded) == len(set(loaded)) <= 3
    assert len([line for line in lines if line[0] in "ab"]) == 60
