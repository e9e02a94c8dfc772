"""Where the rows of a run came from: written for people, and read back as it was."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.features.loading import Loaded
from kspr.runs.run import (
    CONSENSUS,
    Origin,
    describe,
    origin_document,
    origin_of,
    read_origin,
    resolved,
)
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

N = 60
ORIGIN = Origin("/data/x.csv", "csv", {"label": "y"}, ("kspr", "select", "/data/x y.csv"))


@pytest.fixture
def table(tmp_path, features, names) -> Path:
    columns = {f"f{i}": features[:, i] for i in range(4)}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({**columns, "label": names}), path)
    return path


def test_the_origin_has_absolute_paths(tmp_path, table, names, monkeypatch):
    (tmp_path / "y.txt").write_text("\n".join(names))
    monkeypatch.chdir(tmp_path)
    options = ReadOptions(labels=Path("y.txt"), features="f*")
    loaded = Loaded(open_source(Path("x.parquet"), options), None, np.arange(N))
    origin = origin_of(loaded, options, ["kspr"])
    assert origin.source == str(table)
    assert origin.reader == "parquet"
    assert origin.options == {"labels": str(tmp_path / "y.txt"), "features": "f*"}


def test_run_json_is_readable_by_people(run_of, table):
    text = (run_of(table).folder / "run.json").read_text()
    assert json.loads(text)["source"] == str(table)
    assert text.endswith("}\n")
    assert text.count("\n") > 5


def test_a_document_is_read_back_as_it_was_written():
    written = json.loads(json.dumps(origin_document(ORIGIN, named=True)))
    assert (written.pop("format"), written.pop("named")) == (1, True)
    assert read_origin(written) == ORIGIN
    assert ORIGIN.command_line() == "kspr select '/data/x y.csv'"


@pytest.mark.parametrize(
    "change",
    [
        {"source": 7},
        {"options": {"label": 3}},
        {"options": "label"},
        {"command": ["kspr", None]},
        {"n_rows": "60"},
        {"n_rows": True},
        {"embedding": 1},
        {"surprise": 1},
    ],
)
def test_a_value_of_another_type_is_refused(change):
    with pytest.raises((TypeError, ValueError)):
        read_origin({**asdict(ORIGIN), **change})


def test_options_of_a_later_version_are_left_out():
    later = replace(ORIGIN, options={"label": "y", "telepathy": "on"})
    assert later.read_options() == ReadOptions(label="y")


def test_only_what_was_given_is_described():
    assert describe(ReadOptions()) == {}
    assert describe(ReadOptions(label="y", features="f*")) == {"label": "y", "features": "f*"}


def test_a_consensus_is_the_file_of_labels_and_moves_with_the_run(tmp_path):
    stored = replace(ORIGIN, options={"labels": CONSENSUS})
    assert resolved(stored, tmp_path).options["labels"] == str(tmp_path / CONSENSUS)
    assert resolved(ORIGIN, tmp_path) == ORIGIN
