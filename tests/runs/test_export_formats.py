"""Export: what was not asked to change comes back unchanged, from every reader to every format."""

import json
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.runs.export import export_run
from kspr.sources.formats import FORMATS
from kspr.sources.opening import READERS
from kspr.sources.options import ReadOptions
from kspr.sources.readers.tables import read_table
from tests.runs.tables import HEADER, INFO, N, cells_of, parquet, text_rows, write_csv


def in_parts(table, folder):
    folder.mkdir()
    for part in range(2):
        pq.write_table(table.slice(part * 25, 25 + part * 10), folder / f"part-{part}.parquet")
    return folder


def saved(table, folder):
    """Write what `save_to_disk` of Hugging Face writes."""
    folder.mkdir()
    with pa.ipc.new_stream(folder / "data.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=17)
    (folder / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    return folder


def stream(table, path):
    (saved(table, path.parent / "stream") / "data.arrow").rename(path)
    return path


def feather(table, path, compression):
    pa.feather.write_feather(table, path, compression=compression, chunksize=17)
    return path


TYPED = {
    "parquet": lambda table, home: parquet(table, home / "x.parquet"),
    "pq": lambda table, home: parquet(table, home / "x.pq"),
    "folder": lambda table, home: in_parts(table, home / "folder"),
    "arrow": lambda table, home: feather(table, home / "x.arrow", "uncompressed"),
    "feather": lambda table, home: feather(table, home / "x.feather", "lz4"),
    "stream": lambda table, home: stream(table, home / "x.arrow"),
    "huggingface": lambda table, home: saved(table, home / "saved"),
}


def reread(path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.ipc.open_file(path) as reader:
        return reader.read_all()


def plain(value):
    """Return a value as JSON gives it back."""
    if isinstance(value, (date, Decimal)):
        return str(value)
    return value


def test_these_tests_cover_every_format_of_tables():
    tables = {name for name, reader in READERS.items() if reader is read_table}
    assert set(TYPED) | {"csv", "jsonl", "manifest"} >= tables
    written = {known.name for known in FORMATS if known.is_written}
    tools = {"huggingface", "label-studio", "fiftyone"}
    assert written == {"csv", "parquet", "arrow", "jsonl", "imagefolder"} | tools


@pytest.mark.parametrize("suspects", ["drop", "keep"])
@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.jsonl", "o.csv"])
@pytest.mark.parametrize("source", TYPED)
def test_typed_tables_come_back_unchanged(tmp_path, run_of, typed, source, out, suspects):
    run = run_of(TYPED[source](typed, tmp_path), ReadOptions(features="f*"))
    rows = run.selection.clean_indices if suspects == "drop" else np.arange(N)
    assert export_run(run.folder, tmp_path / out, None, suspects).rows == len(rows)
    expected = typed.take(pa.array(rows))
    if out == "o.csv":
        header, *cells = cells_of(tmp_path / out)
        texts = [
            expected.column(name).cast(pa.string()) for name in typed.column_names if name != "half"
        ]
        assert header[:12] == typed.column_names
        found = [[row[k] for k in range(12) if k != 3] for row in cells]
        wanted = zip(*(column.to_pylist() for column in texts), strict=True)
        assert found == [[cell or "" for cell in row] for row in wanted]
    elif out == "o.jsonl":
        lines = [json.loads(line) for line in (tmp_path / out).read_text().splitlines()]
        wanted = [{k: plain(v) for k, v in row.items()} for row in expected.to_pylist()]
        assert [dict(list(line.items())[:12]) for line in lines] == wanted
    else:
        found = reread(tmp_path / out)
        assert found.column_names[:12] == typed.column_names
        assert found.schema.metadata[b"mine"] == b"kept"
        assert json.loads(found.schema.metadata[b"huggingface"]) == INFO
        kept = found.select(typed.column_names)
        assert [field.type for field in kept.schema] == [field.type for field in typed.schema]
        assert kept.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("source", TYPED)
@pytest.mark.parametrize("out", ["o.parquet", "o.arrow"])
def test_a_suggested_class_is_written_as_its_number(tmp_path, run_of, typed, source, out):
    run = run_of(TYPED[source](typed, tmp_path), ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / out, None, "relabel", threshold=0.2)
    found, selection = reread(tmp_path / out), run.selection
    changed = selection.relabel(0.2)
    written = selection.clean_mask | (changed.pile == "change")
    assert (changed.pile == "change").any()
    codes = np.searchsorted(["cat", "dog", "otter"], changed.label[written])
    assert found["label"].to_pylist() == codes.tolist()
    assert found["label"].type == pa.int32()
    assert found["kspr_given_label"].to_pylist() == selection.label[written].tolist()


@pytest.mark.parametrize("out", ["o.jsonl", "o.parquet"])
def test_json_lines_come_back_unchanged(tmp_path, run_of, features, names, out):
    rows = [
        {"f0": float(x), "label": str(y), "note": f"é {k}", "on": "2020-01-01", "k": k, "b": None}
        for k, (x, y) in enumerate(zip(features[:, 0], names, strict=True))
    ]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / out, None, "keep")
    if out == "o.jsonl":
        found = [json.loads(line) for line in (tmp_path / out).read_text("utf-8").splitlines()]
    else:
        found = reread(tmp_path / out).to_pylist()
    assert [{name: row[name] for name in rows[0]} for row in found] == rows


CSVS = {"x.csv": ",", "y.csv": ";", "x.tsv": "\t", "x.csv.gz": ",", "z.csv.gz": ";", "x.tab": "\t"}


@pytest.mark.parametrize("out", ["o.csv", "o.tsv", "o.csv.gz", "o.tsv.gz"])
@pytest.mark.parametrize("source", CSVS)
def test_text_comes_back_as_it_was_written(tmp_path, run_of, names, source, out):
    rows = text_rows(names)
    path = write_csv(tmp_path / source, CSVS[source], rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / out, None, "drop")
    # A comma is what .csv says of any table as text; a semicolon of the source stays.
    delimiter = "\t" if "tsv" in out else ";" if CSVS[source] == ";" else ","
    header, *found = cells_of(tmp_path / out, delimiter)
    assert header[:7] == HEADER
    assert header[7:] == [
        *("kspr_row", "kspr_given_label", "kspr_clean"),
        *("kspr_suggested_label", "kspr_selection_time", "kspr_q_value", "kspr_doubt"),
    ]
    assert [row[:7] for row in found] == [rows[i] for i in run.selection.clean_indices]


def test_a_csv_line_is_kept_byte_for_byte(tmp_path, run_of, names):
    """Nothing gains quotes that it does not need, and an empty text in quotes keeps them."""
    odd = ["01000", '"a,b"', '"say ""hi"""', "", '""', " x ", "1.50", "NA", "caf\u00e9 \U0001f9a6"]
    lines = [f"{i / 7!r},{odd[i % len(odd)]},,{name}" for i, name in enumerate(names)]
    (tmp_path / "x.csv").write_text("\n".join(["f0,a b,c,label", *lines, ""]), "utf-8")
    run = run_of(tmp_path / "x.csv", ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    header, *found = (tmp_path / "o.csv").read_text("utf-8").splitlines()
    assert header.startswith("f0,a b,c,label,kspr_row,")
    assert [line.rsplit(",", 7)[0] for line in found] == lines


@pytest.mark.parametrize("source", CSVS)
def test_plain_numbers_of_a_csv_become_numbers_and_nothing_else_does(
    tmp_path, run_of, names, source
):
    rows = text_rows(names)
    path = write_csv(tmp_path / source, CSVS[source], rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    found = pq.read_table(tmp_path / "o.parquet")
    assert found.column_names[:7] == HEADER
    kinds = [str(found.schema.field(name).type) for name in HEADER]
    assert kinds == ["string", "double", "double", "string", "int64", "string", "string"]
    assert found["zip"].to_pylist() == [row[0] for row in rows]
    assert found["f0"].to_pylist() == [i / 7 for i in range(N)]
    assert found["f1"].to_pylist() == [i + 0.5 for i in range(N)]
    assert [cell or "" for cell in found["the note"].to_pylist()] == [row[3] for row in rows]
    assert found["big"].to_pylist() == [i * 10**15 for i in range(N)]
    assert found["empty"].to_pylist() == [None] * N
    export_run(run.folder, tmp_path / "o.jsonl", None, "keep")
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    assert [line["zip"] for line in lines] == [row[0] for row in rows]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["0", "7", "-3"], "int64"),
        (["0", "07"], "string"),
        (["1", "+1"], "string"),
        (["1", "-0"], "double"),
        (["1", "2."], "string"),
        (["1", " 2"], "string"),
        (["1", "NA"], "string"),
        (["1", "1.5"], "double"),
        (["1.5", "1"], "double"),
        (["0.1", "1e-7", "3.141592653589793"], "double"),
        (["0.12345678901234567890123", "1"], "string"),
        (["9007199254740993", "1"], "int64"),
        (["9007199254740993", "1.5"], "string"),
        (["1.5", "9007199254740993"], "string"),
        (["1234567890123456789", "1"], "string"),
        (["1e999", "1"], "string"),
        (["true", "false"], "string"),
    ],
)
def test_a_number_is_plain_if_it_can_be_given_back(tmp_path, run_of, names, cells, kind):
    rows = [[str(i), cells[i % len(cells)], name] for i, name in enumerate(names)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["f0", "code", "label"])
    export_run(run_of(path).folder, tmp_path / "o.parquet", None, "keep")
    found = pq.read_table(tmp_path / "o.parquet")["code"]
    assert str(found.type) == kind
    if kind == "string":
        assert found.to_pylist() == [row[1] for row in rows]
    else:
        assert found.to_pylist() == [
            float(row[1]) if "." in row[1] or "e" in row[1] else int(row[1]) for row in rows
        ]
