"""A run on disk: saved and loaded unchanged, and its source found again."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs.run import Origin, load_run, origin_of, save_run
from kspr.sources.opening import open_source
from kspr.sources.options import ReadOptions

N = 60


@pytest.fixture
def table(tmp_path, features, names) -> Path:
    columns = {f"f{i}": features[:, i] for i in range(4)}
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({**columns, "note": [f"n{i}" for i in range(N)], "label": names}), path)
    return path


def test_what_is_saved_is_loaded(run_of, table):
    made = run_of(table, ReadOptions(label="label", labels=Path("/some/file.csv")))
    found = load_run(made.folder)
    np.testing.assert_array_equal(found.row, made.row)
    np.testing.assert_array_equal(found.row_id, made.row_id)
    np.testing.assert_array_equal(found.selection.clean_mask, made.selection.clean_mask)
    assert found.origin == made.origin
    assert found.origin.read_options() == ReadOptions(label="label", labels=Path("/some/file.csv"))
    assert found.origin.command_line() == f"kspr select {table}"


def test_the_origin_has_absolute_paths(tmp_path, table, names, monkeypatch):
    (tmp_path / "y.txt").write_text("\n".join(names))
    monkeypatch.chdir(tmp_path)
    options = ReadOptions(labels=Path("y.txt"), features="f*")
    origin = origin_of(open_source(Path("x.parquet"), options), options, ["kspr"])
    assert origin.source == str(table)
    assert origin.reader == "parquet"
    assert origin.options == {"labels": str(tmp_path / "y.txt"), "features": "f*"}


def test_features_are_those_of_the_runs_rows(run_of, table, features):
    np.testing.assert_array_equal(run_of(table).features(), features)
    # The rows of the selection stand for others of the source here.
    some = np.sort(np.random.default_rng(0).permutation(N))
    np.testing.assert_array_equal(run_of(table, row=some).features(), features[some])


def test_features_of_some_rows_are_chosen_by_row_number(run_of, table, features, names):
    from kspr import KnockoffsSPR

    some = np.arange(3, N)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    np.testing.assert_array_equal(run_of(table, made=made, row=some).features(), features[3:])


def test_items_are_those_of_the_runs_rows(run_of, table, features, names):
    from kspr import KnockoffsSPR

    some = np.flatnonzero(np.arange(N) % 5 != 2)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    items = run_of(table, ReadOptions(text="note"), made, some).items()
    assert items.kind == "text"
    assert len(items) == len(some)
    assert [items[k] for k in range(len(some))] == [f"n{i}" for i in some]
    assert list(items.content()) == [f"n{i}".encode() for i in some]
    assert run_of(table).items() is None


def test_stored_features_serve_a_run_of_items(run_of, table, features, tmp_path):
    made = run_of(table, ReadOptions(text="note"))
    assert made.features() is None
    np.save(tmp_path / "features.npy", features)
    origin = Origin(str(table), "parquet", {"text": "note"}, ("kspr",), embedding=str(tmp_path))
    args = (made.folder, made.selection, made.row, made.row_id, origin)
    found = save_run(*args, overwrite=True)
    np.testing.assert_array_equal(found.features(), features)
    np.save(tmp_path / "features.npy", features[:-1])
    assert found.features() is None
    (tmp_path / "features.npy").unlink()
    assert found.features() is None


def test_a_source_that_is_gone_has_neither_features_nor_items(run_of, table):
    made = run_of(table)
    table.unlink()
    assert made.features() is None
    assert made.items() is None
    for ask in (made.records, made.table):
        with pytest.raises(InputError, match="does not exist"):
            ask()


def test_a_source_that_has_lost_rows_has_neither_features_nor_items(run_of, table):
    made = run_of(table, ReadOptions(text="note"))
    pq.write_table(pq.read_table(table).slice(0, N - 1), table)
    assert made.items() is None
    assert made.features() is None
    with pytest.raises(InputError, match=r"has 59 rows now, but .* row 59 too\. Select again"):
        made.place(len(made.records()))


def test_the_source_is_read_once(run_of, table, monkeypatch):
    made, opened = run_of(table, ReadOptions(text="note")), []
    monkeypatch.setattr(
        "kspr.runs.run.open_source", lambda *asked: opened.append(asked) or open_source(*asked)
    )
    made.items()
    made.features()
    made.records()
    assert len(opened) == 1


def test_a_folder_is_never_written_over_by_accident(run_of, table, tmp_path):
    made = run_of(table)
    args = (made.selection, made.row, made.row_id, made.origin)
    with pytest.raises(InputError, match="already holds a run"):
        save_run(made.folder, *args, overwrite=False)
    (tmp_path / "mine").mkdir()
    with pytest.raises(InputError, match="is not a run of kspr"):
        save_run(tmp_path / "mine", *args, overwrite=True)


@pytest.mark.parametrize(
    ("file", "content"),
    [("run.json", "{"), ("run.json", "{}"), ("rows.parquet", "PAR1"), ("run.json", '{"a": 1}')],
)
def test_a_damaged_run_is_one_sentence(run_of, table, file, content):
    made = run_of(table)
    (made.folder / file).write_text(content)
    with pytest.raises(InputError, match="cannot be read as a run"):
        load_run(made.folder)


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is not a run of kspr\. Make one with `kspr select`"):
        load_run(tmp_path)


def test_run_json_is_readable_by_people(run_of, table):
    text = (run_of(table).folder / "run.json").read_text()
    assert json.loads(text)["source"] == str(table)
    assert text.endswith("}\n")
    assert text.count("\n") > 5
