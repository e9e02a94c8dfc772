"""Commands on a run read a few rows at a time: no whole column is made, nothing changes."""

import csv
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr import KnockoffsSPR
from kspr.core import coded
from kspr.features.options import AS_SHIPPED
from kspr.report.run_report import report_run
from kspr.runs.draws import draw_checks
from kspr.runs.export import export_run
from kspr.runs.run import load_run
from kspr.runs.select import select_source
from kspr.runs.verify import verify_run
from kspr.sources.options import AS_FOUND
from tests.runs.samples import TRUTH, X

NAMES = np.array([f"digit {k}" for k in range(10)])


@pytest.fixture(scope="module", params=[False, True], ids=["no ids", "ids"])
def source(request, tmp_path_factory) -> Path:
    """Digits in a table with texts as labels, a fifth of them wrong."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(len(TRUTH)) < 0.2, rng.integers(10, size=len(TRUTH)), TRUTH)
    columns = {f"f{k}": X[:, k].astype(np.float32) for k in range(X.shape[1])}
    columns |= {"label": NAMES[y]}
    if request.param:
        columns["id"] = [f"n{row}" for row in rng.permutation(len(y))]
    path = tmp_path_factory.mktemp("digits") / "x.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=500)
    return path


def everything(source: Path, folder: Path) -> dict[str, bytes]:
    """Run all commands one after the other, and return what they wrote."""
    how = {"options": AS_FOUND, "settings": AS_SHIPPED, "command": ("kspr",)}
    run = folder / "run"
    select_source(source, run, KnockoffsSPR(q=0.05, progress=False), **how)
    draw_checks(run, folder / "checks.csv", n=60)
    report_run(run, folder / "report.html")
    export_run(run, folder / "clean.parquet", None, "relabel", threshold=0.5)
    with (folder / "checks.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for entry in rows:
        entry["true_label"] = str(NAMES[TRUTH[int(entry["row"])]])
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    verify_run(run, folder / "answers.csv")
    report_run(run, folder / "checked.html")
    export_run(run, folder / "clean.csv", None)
    written = {path.name: path for path in folder.iterdir() if path.is_file()}
    found = {name: path.read_bytes() for name, path in written.items() if path.suffix != ".parquet"}
    # Row groups may be cut elsewhere; the rows are the same.
    return found | {"clean.parquet": str(pq.read_table(written["clean.parquet"]).to_pydict())}


def test_no_command_makes_a_whole_column_and_parts_change_nothing(source, tmp_path, monkeypatch):
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    whole = everything(source, Path())

    def refuse(column):
        raise AssertionError(f"all {len(column)} rows of a column are read at once")

    monkeypatch.chdir(tmp_path / "parts")
    monkeypatch.setattr(coded, "ROWS", 100)
    monkeypatch.setattr(coded.Stored, "array", refuse)
    assert everything(source, Path()) == whole


def test_a_run_keeps_the_file_that_it_was_loaded_from(source, tmp_path):
    how = {"options": AS_FOUND, "settings": AS_SHIPPED, "command": ("kspr",)}
    selector = KnockoffsSPR(q=0.05, progress=False)
    select_source(source, tmp_path / "run", selector, **how)
    run = load_run(tmp_path / "run")
    ids = [f"other {row}" for row in range(len(run.rows))]
    pq.write_table(pq.read_table(source).append_column("uid", [ids]), tmp_path / "other.parquet")
    select_source(tmp_path / "other.parquet", tmp_path / "run", selector, overwrite=True, **how)
    assert run.joined.whole
    assert not set(run.row_id[np.array([5, 3])]) & set(ids)
