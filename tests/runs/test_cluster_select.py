"""Runs that a cluster writes: those of one machine, part by part, and they go on after a stop."""

import csv
import itertools
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.features.options import AS_SHIPPED
from kspr.runs import cluster_select
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.selectors import KnockoffsSPR
from kspr.sources.options import ReadOptions
from tests.cli import commands
from tests.selectors.clusters import HereCluster, assert_same_bits, noisy_data

X, y = noisy_data(900)
NAMES = np.array(["ant", "bee", "cat", "doe"])


def write_parts(folder: Path, *cuts: int, **columns) -> Path:
    folder.mkdir(exist_ok=True)
    for number, (a, b) in enumerate(itertools.pairwise([0, *cuts, 900])):
        table = {f"f{j}": X[a:b, j] for j in range(12)}
        table |= {"label": NAMES[y[a:b]], **{name: v[a:b] for name, v in columns.items()}}
        pq.write_table(pa.table(table), folder / f"p{number}.parquet", row_group_size=100)
    return folder / "*.parquet"


def selector(**choices) -> KnockoffsSPR:
    return KnockoffsSPR(q=0.1, progress=False, **{"fit_rows": 250, **choices})


@pytest.fixture
def cluster(monkeypatch):
    found = HereCluster()

    @contextmanager
    def here(_):
        yield found

    monkeypatch.setattr(cluster_select, "opened_cluster", here)
    return found


def select(source: Path, out: Path, options=None, overwrite=False, **choices):
    return cluster_select.select_on_cluster(
        source,
        out,
        selector(**choices),
        options=options or ReadOptions(),
        command=("kspr", "select"),
        overwrite=overwrite,
    )


CHOICES = (
    {},
    {"cut": "per_class"},
    {"fit_rows": None},
    {"control": "exchangeable"},
    {"level": "f1"},
    {"level": "f1", "cut": "per_class"},
)


@pytest.mark.parametrize("choices", CHOICES)
def test_a_run_of_a_cluster_is_that_of_one_machine(tmp_path, cluster, choices):
    source = write_parts(tmp_path / "parts", 200, 200, 650)
    here = select_source(
        source,
        tmp_path / "here",
        selector(**choices),
        options=ReadOptions(),
        settings=AS_SHIPPED,
        command=(),
    )
    written = select(source, tmp_path / "there", **choices)
    there = load_run(tmp_path / "there")
    assert_same_bits(here.selection, there.selection)
    assert written.n_kept == here.selection.clean_mask.sum()
    for name in ("q", "level", "control"):
        one, two = (run.selection.manifest.parameters[name] for run in (here, there))
        assert one == two
    np.testing.assert_array_equal(here.row_id, there.row_id)
    np.testing.assert_array_equal(here.rows.digest, there.rows.digest)
    # The rows are found again in the source.
    assert there.joined.whole
    assert there.features().shape == (900, 12)
    assert not list(tmp_path.glob(".*"))


def test_each_part_of_the_source_has_a_part_of_the_run(tmp_path, cluster):
    select(write_parts(tmp_path / "parts", 200, 200, 650), tmp_path / "run")
    for name in ("samples.parquet", "rows.parquet"):
        sizes = [pq.read_metadata(p).num_rows for p in sorted((tmp_path / "run" / name).iterdir())]
        # Parts without rows leave none.
        assert sizes == [200, 450, 250]


def test_a_part_that_was_changed_afterwards_is_noticed(tmp_path, cluster):
    select(write_parts(tmp_path / "parts", 300), tmp_path / "run")
    part = next((tmp_path / "run" / "samples.parquet").iterdir())
    part.write_bytes(part.read_bytes()[::-1])
    with pytest.raises(InputError, match="not as it was written"):
        load_run(tmp_path / "run")


class LostError(Exception):
    pass


@pytest.mark.parametrize("stopped_at", ["fit_part", "judge", "grade", "_write_part"])
def test_a_run_that_was_stopped_starts_again_and_ends_right(
    tmp_path, cluster, monkeypatch, stopped_at
):
    source = write_parts(tmp_path / "parts", 300)
    select(source, tmp_path / "whole")
    each = cluster.each

    def stop(function, *rest, **more):
        if function.__name__ == stopped_at:
            raise LostError
        return each(function, *rest, **more)

    monkeypatch.setattr(cluster, "each", stop)
    with pytest.raises(LostError):
        select(source, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(cluster, "each", each)
    select(source, tmp_path / "run")
    assert_same_bits(*(load_run(tmp_path / name).selection for name in ("whole", "run")))
    assert {path.name for path in tmp_path.iterdir()} == {"parts", "whole", "run"}


def test_data_that_cannot_be_selected_from_leaves_nothing_behind(tmp_path, cluster):
    source = write_parts(tmp_path / "parts", 300)
    part = tmp_path / "parts" / "p0.parquet"
    table = pq.read_table(part)
    label = ["dodo", *table["label"].to_pylist()[1:]]
    pq.write_table(table.set_column(12, "label", pa.array(label)), part)
    with pytest.raises(InputError, match="Class 'dodo' has 1 sample"):
        select(source, tmp_path / "run")
    assert {path.name for path in tmp_path.iterdir()} == {"parts"}


def test_rows_without_labels_are_left_out_if_asked(tmp_path, cluster):
    source = write_parts(tmp_path / "parts", 300)
    part = tmp_path / "parts" / "p0.parquet"
    table = pq.read_table(part)
    label = [None, *table["label"].to_pylist()[1:]]
    pq.write_table(table.set_column(12, "label", pa.array(label)), part)
    with pytest.raises(InputError, match="no label"):
        select(source, tmp_path / "run")
    select(source, tmp_path / "run", ReadOptions(missing="drop"))
    run = load_run(tmp_path / "run")
    assert run.row[:2].tolist() == [1, 2]
    assert "1 rows have no label and are left out." in run.origin.notes


def test_named_rows_and_groups_are_read(tmp_path, cluster):
    ids = np.array([f"row-{i}" for i in range(900)])
    source = write_parts(tmp_path / "parts", 300, name=ids, film=np.arange(900) // 4)
    select(source, tmp_path / "run", ReadOptions(id="name", groups="film"))
    assert load_run(tmp_path / "run").row_id[899] == "row-899"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ReadOptions(labels=Path("labels.csv")), "--labels does not go with --engine dask"),
        (ReadOptions(annotators="a_*"), "--annotators does not go with"),
    ],
)
def test_what_needs_several_files_at_once_is_refused(tmp_path, cluster, options, words):
    with pytest.raises(InputError, match=words):
        select(write_parts(tmp_path / "parts"), tmp_path / "run", options)


def test_other_sources_and_other_columns_are_refused_in_a_sentence(tmp_path, cluster):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match="reads parquet and Arrow files"):
        select(tmp_path / "x.npy", tmp_path / "run")
    source = write_parts(tmp_path / "parts", 300)
    cluster.calls.clear()
    with pytest.raises(InputError, match=r"no column 'lable'\. Did you mean 'label'"):
        select(source, tmp_path / "run", ReadOptions(label="lable"))
    assert not cluster.calls
    pq.write_table(pa.table({"label": NAMES[y]}), tmp_path / "parts" / "p9.parquet")
    with pytest.raises(InputError, match="must have the same columns"):
        select(source, tmp_path / "run")
    pq.write_table(pa.table({"text": ["a", "b"], "label": [0, 1]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="has no features"):
        select(tmp_path / "t.parquet", tmp_path / "run")


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


def test_files_of_an_object_store_are_read_by_their_address(tmp_path, cluster, bucket, monkeypatch):
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
    select(Path("s3://data/parts/*.parquet"), tmp_path / "there")
    select(source, tmp_path / "here")
    runs = [load_run(tmp_path / name) for name in ("here", "there")]
    assert_same_bits(*(run.selection for run in runs))


def test_a_run_that_workers_wrote_is_verified_reported_and_exported(tmp_path, cluster, capsys):
    source, run = write_parts(tmp_path / "parts", 300, 650), tmp_path / "run"
    select(source, run)
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


def test_checked_rows_give_the_run_of_one_machine(tmp_path, cluster):
    source, checked = write_parts(tmp_path / "parts", 300), tmp_path / "checked.csv"
    rows = [f"{i},{NAMES[y[i]]},all" for i in range(0, 900, 7)]
    checked.write_text("\n".join(["row,true_label,drawn_from", *rows]))
    options = {"options": ReadOptions(), "command": (), "checked": checked}
    here = select_source(source, tmp_path / "here", selector(), settings=AS_SHIPPED, **options)
    written = cluster_select.select_on_cluster(source, tmp_path / "there", selector(), **options)
    there = load_run(tmp_path / "there")
    assert_same_bits(here.selection, there.selection)
    assert written.n_kept == there.selection.clean_mask.sum()
    checked.write_text("row,true_label\n9999,ant\n")
    with pytest.raises(InputError, match=r"The run in .* is without answers"):
        cluster_select.select_on_cluster(source, tmp_path / "other", selector(), **options)
    assert load_run(tmp_path / "other").selection.checked is None
