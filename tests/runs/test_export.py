"""Export: what was not asked to change comes back unchanged, from every reader to every format."""

import csv
import gzip
import io
import json
import math
from datetime import date
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.runs.export import export_run
from kspr.sources.formats import FORMATS
from kspr.sources.options import ReadOptions
from kspr.sources.readers.table_files import TABLES

N = 60
INFO = {"info": {"features": {"label": {"names": ["cat", "dog", "otter"], "_type": "ClassLabel"}}}}
ODD = [
    'say "hi"',
    "a,b;c\td",
    "two\nlines",
    "x\r\ny",
    "café 水 🦦",
    " spaced ",
    "",
    "NA",
    "-0",
    "1e5",
]


@pytest.fixture
def typed(names) -> pa.Table:
    """A table with columns of many types, and metadata of Hugging Face and of pandas."""
    number = np.arange(N)
    codes = np.searchsorted(["cat", "dog", "otter"], names)
    table = pa.table(
        {
            "zip": [f"{i:05d}" for i in number],
            "f0": number.astype(np.float32) / 7,
            "f1": pa.array([None if i % 9 == 0 else i / 3 for i in number]),
            "half": number.astype(np.float16),
            "note": [None if i % 11 == 0 else ODD[i % len(ODD)] for i in number],
            "count": pa.array([None if i % 5 == 0 else i for i in number], pa.int16()),
            "flag": pa.array([None if i % 8 == 0 else i % 2 == 0 for i in number]),
            "day": pa.array([date(2020, 1, 1 + i % 28) for i in number]),
            "price": pa.array([Decimal(i) / 4 for i in range(N)], pa.decimal128(9, 2)),
            "kind": pa.array([f"kind {i % 4}" for i in number]).dictionary_encode(),
            "label": pa.array(codes, pa.int32()),
            "größe": number,
        }
    )
    return table.replace_schema_metadata({"huggingface": json.dumps(INFO), "mine": "kept"})


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


def parquet(table, path):
    pq.write_table(table, path, row_group_size=17)
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


def cells_of(path, delimiter=","):
    content = path.read_bytes()
    text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))


def plain(value):
    """Return a value as JSON gives it back."""
    if isinstance(value, (date, Decimal)):
        return str(value)
    return value


def test_these_tests_cover_every_format_of_tables():
    assert set(TYPED) | {"csv"} >= set(TABLES)
    written = {known.name for known in FORMATS if known.is_written}
    assert written == {"csv", "parquet", "arrow", "jsonl", "imagefolder"}


@pytest.mark.parametrize("suspects", ["drop", "keep"])
@pytest.mark.parametrize("out", ["o.parquet", "o.arrow", "o.jsonl", "o.csv"])
@pytest.mark.parametrize("source", TYPED)
def test_typed_tables_come_back_unchanged(tmp_path, run_of, typed, source, out, suspects):
    run = run_of(TYPED[source](typed, tmp_path), ReadOptions(features="f*"))
    rows = run.selection.clean_indices if suspects == "drop" else np.arange(N)
    assert export_run(run.folder, tmp_path / out, None, suspects) == len(rows)
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
    export_run(run.folder, tmp_path / out, None, "relabel")
    found, selection = reread(tmp_path / out), run.selection
    names = np.where(selection.clean_mask, selection.label, selection.suggested_label)
    codes = np.searchsorted(["cat", "dog", "otter"], names)
    assert found["label"].to_pylist() == codes.tolist()
    assert found["label"].type == pa.int32()
    assert found["kspr_given_label"].to_pylist() == selection.label.tolist()


def text_rows(names):
    """Return the cells of a CSV file: every odd thing that a cell can hold."""
    return [
        [f"{i:05d}", f"{i / 7!r}", f"{i}.50", ODD[i % len(ODD)], str(i * 10**15), f" {name}", ""]
        for i, name in enumerate(names)
    ]


HEADER = ["zip", "f0", "f1", "the note", "big", "Label", "empty"]
CSVS = {"x.csv": ",", "y.csv": ";", "x.tsv": "\t", "x.csv.gz": ",", "z.csv.gz": ";", "x.tab": "\t"}


def write_csv(path, delimiter, rows, header=HEADER):
    stream = io.StringIO(newline="")
    csv.writer(stream, delimiter=delimiter).writerows([header, *rows])
    content = ("\ufeff" if path.name == "x.csv" else "") + stream.getvalue()
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return path


@pytest.mark.parametrize("out", ["o.csv", "o.tsv", "o.csv.gz", "o.tsv.gz"])
@pytest.mark.parametrize("source", CSVS)
def test_text_comes_back_as_it_was_written(tmp_path, run_of, names, source, out):
    rows = text_rows(names)
    path = write_csv(tmp_path / source, CSVS[source], rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / out, None, "drop")
    header, *found = cells_of(tmp_path / out, "\t" if "tsv" in out else ",")
    assert header[:7] == HEADER
    assert header[7:] == [
        *("kspr_row", "kspr_given_label", "kspr_clean"),
        *("kspr_suggested_label", "kspr_selection_time"),
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
    assert [line.rsplit(",", 5)[0] for line in found] == lines


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


def test_relabelled_suspects_are_spelled_as_the_source_spells_the_class(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    run = run_of(path, ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "o.csv", None, "relabel")
    _, *found = cells_of(tmp_path / "o.csv")
    moved = ~run.selection.clean_mask & (run.selection.suggested_label != run.selection.label)
    assert moved.any()
    for k, row in enumerate(found):
        assert row[5] == f" {run.selection.suggested_label[k] if moved[k] else names[k]}"
        assert [*row[:5], row[6]] == [*rows[k][:5], rows[k][6]]


def test_rows_that_the_run_left_out_are_not_exported(tmp_path, run_of, names, features, typed):
    """A run may have fewer rows than its source: items that could not be read are not in it."""
    from kspr import KnockoffsSPR

    some = np.flatnonzero(np.arange(N) % 7 != 3)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[some], names[some]).selection_
    run = run_of(parquet(typed, tmp_path / "x.pq"), ReadOptions(features="f*"), made, some)
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    found = pq.read_table(tmp_path / "o.parquet")
    assert found["größe"].to_pylist() == some.tolist() == found["kspr_row"].to_pylist()
    export_run(run.folder, tmp_path / "p.parquet", None, "relabel")
    label = np.where(made.clean_mask, made.label, made.suggested_label)
    codes = np.searchsorted(["cat", "dog", "otter"], label)
    assert pq.read_table(tmp_path / "p.parquet")["label"].to_pylist() == codes.tolist()


def test_labels_of_a_second_file_take_the_place_of_the_tables_own(tmp_path, run_of, names):
    rows = [[str(i), "old"] for i in range(N)]
    path = write_csv(tmp_path / "x.csv", ",", rows, ["f0", "y"])
    (tmp_path / "new.txt").write_text("\n".join(names))
    run = run_of(path, ReadOptions(labels=tmp_path / "new.txt"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    header, *found = cells_of(tmp_path / "o.csv")
    assert header[:3] == ["f0", "y", "kspr_row"]
    assert [row[1] for row in found] == names.tolist()


def test_an_export_can_be_exported_again(tmp_path, run_of, names):
    rows = text_rows(names)
    path = write_csv(tmp_path / "x.csv", ",", rows)
    export_run(run_of(path, ReadOptions(features="f*")).folder, tmp_path / "o.csv", None, "keep")
    run = run_of(tmp_path / "o.csv", ReadOptions(features="f*"))
    export_run(run.folder, tmp_path / "again.csv", None, "keep")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "o.csv").read_bytes()


def test_nothing_kept_is_an_empty_table(tmp_path, run_of, selection, names, monkeypatch):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    monkeypatch.setattr("kspr.selectors.Selection.clean_indices", np.array([], dtype=np.int64))
    for out in ("o.csv", "o.parquet", "o.arrow", "o.jsonl"):
        assert export_run(run.folder, tmp_path / out, None, "drop") == 0
    assert cells_of(tmp_path / "o.csv")[0][:7] == HEADER
    assert pq.read_table(tmp_path / "o.parquet").num_rows == 0


def test_a_source_that_has_lost_rows_is_refused(tmp_path, run_of, names):
    path = write_csv(tmp_path / "x.csv", ",", text_rows(names))
    run = run_of(path, ReadOptions(features="f*"))
    write_csv(path, ",", text_rows(names)[:40])
    with pytest.raises(InputError, match=r"has 40 rows now, but .* was made from row 59 too"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert not (tmp_path / "o.csv").exists()
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        export_run(run.folder, tmp_path / "o.csv", None, "keep")


@pytest.mark.parametrize(
    ("column", "out", "complaint"),
    [
        (pa.array([[1.0]] * N), "o.csv", "A CSV file cannot hold the lists or structs of column"),
        (pa.array([b"x"] * N), "o.csv", "A CSV file cannot hold the bytes of column 'odd'"),
        (pa.array([b"x"] * N, pa.large_binary()), "o.jsonl", "JSON cannot hold the bytes"),
        (pa.array([{"bytes": b"x"}] * N), "o.jsonl", "JSON cannot hold the bytes of column 'odd'"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, run_of, names, column, out, complaint):
    table = pa.table({"f0": np.arange(N) / 2, "odd": column, "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    with pytest.raises(InputError, match=complaint):
        export_run(run.folder, tmp_path / out, None, "keep")
    assert not (tmp_path / out).exists()
    export_run(run.folder, tmp_path / "o.parquet", None, "keep")
    assert pq.read_table(tmp_path / "o.parquet")["odd"].to_pylist() == column.to_pylist()


def test_a_pandas_frame_comes_back_with_its_index(tmp_path, run_of, names):
    import pandas as pd

    frame = pd.DataFrame(
        {"f0": np.arange(N) / 3, "label": names}, index=[f"i{k}" for k in range(N)]
    )
    frame.to_parquet(tmp_path / "x.parquet")
    run = run_of(tmp_path / "x.parquet", ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.parquet", None, "drop")
    found = pd.read_parquet(tmp_path / "o.parquet")
    pd.testing.assert_frame_equal(found[["f0", "label"]], frame.iloc[run.selection.clean_indices])


def test_classes_that_would_share_a_folder_are_refused(tmp_path, picture_folder, run_of):
    run = run_of(picture_folder)
    names = np.where(run.selection.label == "cat", "a/b", "a_b")
    from kspr.runs import export

    with pytest.raises(InputError, match=r"'a/b' and 'a_b' would share the folder 'a_b'"):
        export._class_folders(names)
    export_run(run.folder, tmp_path / "clean", "imagefolder", "drop")
    found = sorted(p.parent.name for p in (tmp_path / "clean").glob("*/*.png"))
    assert found == sorted(run.selection.label[run.selection.clean_mask])


@pytest.fixture
def picture_folder(tmp_path, names):
    """Images whose order in the folder is that of the selection's rows."""
    from PIL import Image

    for k, name in enumerate(names):
        folder = tmp_path / "photos" / f"{k:03d}"
        folder.mkdir(parents=True)
        Image.new("RGB", (2, 2), (k, 0, 0)).save(folder / f"{name}.png")
    return tmp_path / "photos"


def test_nan_is_not_missing(tmp_path, run_of, names):
    table = pa.table({"f0": [math.nan, None] * (N // 2), "label": names})
    run = run_of(parquet(table, tmp_path / "x.parquet"), ReadOptions(features="f0"))
    export_run(run.folder, tmp_path / "o.csv", None, "keep")
    assert [row[0] for row in cells_of(tmp_path / "o.csv")[1:3]] == ["nan", ""]
