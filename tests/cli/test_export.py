"""`kspr export`: the cleaned data set, in the format that the suffix names."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from kspr import Selection
from tests.cli.commands import fails, run


def test_export_keeps_the_tables_own_columns(made, table, tmp_path):
    out = tmp_path / "clean.parquet"
    before = table.read_bytes()
    run("export", made, "--to", "parquet", "--out", out)
    selection, clean = Selection.load(made), pq.read_table(out)
    assert clean.num_rows == selection.clean_mask.sum()
    assert clean.column_names[:3] == ["id", "species", "truth"]
    assert clean["id"].to_pylist() == selection.clean_indices.tolist()
    assert clean["species"].to_pylist() == selection.label[selection.clean_mask].tolist()
    assert table.read_bytes() == before


def test_export_relabels_suspects(made, tmp_path, capsys):
    out = tmp_path / "all.csv"
    text = run(
        "export", made, "--suspects", "relabel", "--threshold", 0.6, "--out", out, capsys=capsys
    )
    selection, rows = Selection.load(made), list(csv.DictReader(out.open()))
    found = selection.relabel(0.6)
    written = selection.clean_mask | (found.pile == "change")
    assert (found.pile == "change").sum() > 20
    assert [row["species"] for row in rows] == found.label[written].tolist()
    assert [row["kspr_given_label"] for row in rows] == selection.label[written].tolist()
    assert text.startswith(str(found))


def test_export_to_json_lines(made, tmp_path):
    out = tmp_path / "kept.jsonl"
    run("export", made, "--to", "jsonl", "--suspects", "keep", "--out", out)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(rows) == 900
    assert [row["kspr_clean"] for row in rows] == Selection.load(made).clean_mask.tolist()


def test_export_of_arrays_names_the_rows(digits, tmp_path):
    X, _truth, noisy = digits
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", noisy)
    run("select", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "--out", tmp_path / "r")
    run("export", tmp_path / "r", "--out", tmp_path / "clean.csv")
    rows = list(csv.DictReader((tmp_path / "clean.csv").open()))
    selection = Selection.load(tmp_path / "r")
    assert [int(row["row_id"]) for row in rows] == selection.clean_indices.tolist()


@pytest.mark.parametrize("name", ["o.csv", "o.parquet", "o.pq", "o.arrow", "o.jsonl", "o.csv.gz"])
def test_the_suffix_of_out_names_the_format(made, tmp_path, name):
    run("export", made, "--out", tmp_path / name)
    start = (tmp_path / name).read_bytes()[:6]
    expected = {"csv": b"id,spe", "jsonl": b'{"id":', "arrow": b"ARROW1", "gz": b"\x1f\x8b"}
    assert start.startswith(expected.get(name.rpartition(".")[2], b"PAR1"))


def test_a_format_that_contradicts_the_suffix_is_refused(made, tmp_path, capsys):
    out = tmp_path / "x.parquet"
    message = fails("export", made, "--to", "csv", "--out", out, capsys=capsys)
    assert "--to csv contradicts --out x.parquet, whose suffix says parquet" in message
    message = fails("export", made, "--out", tmp_path / "x", capsys=capsys)
    assert "must end in .csv, .parquet, .arrow or .jsonl, got 'x'" in message
    assert "xml" in fails("export", made, "--to", "xml", "--out", out, capsys=capsys)
    assert not out.exists()


def test_an_existing_file_is_left_alone(made, tmp_path, capsys):
    (tmp_path / "x.csv").write_text("mine")
    message = fails("export", made, "--out", tmp_path / "x.csv", capsys=capsys)
    assert "already exists. Choose another --out." in message
    assert (tmp_path / "x.csv").read_text() == "mine"


def test_only_images_become_a_folder_of_images(made, tmp_path, capsys):
    arguments = ["--to", "imagefolder", "--out", tmp_path / "clean"]
    assert "holds no images, which an image folder is made of" in fails(
        "export", made, *arguments, capsys=capsys
    )


def test_json_says_how_many_rows_were_written(made, tmp_path, capsys):
    arguments = ["--suspects", "keep", "--out", tmp_path / "o.csv", "--json"]
    answer = json.loads(run("export", made, *arguments, capsys=capsys))
    nothing = {"relabelled": 0, "dropped": 0, "changes": None, "notes": [], "config": None}
    assert answer == {"out": str(tmp_path / "o.csv"), "rows": 900, **nothing}


def test_what_was_changed_and_what_is_gone_is_said(digits, tmp_path, capsys):
    X, _truth, noisy = digits
    np.savez(tmp_path / "x.npz", X=X, y=noisy)
    run("select", tmp_path / "x.npz", "--out", tmp_path / "r")
    selection = Selection.load(tmp_path / "r")
    np.savez(tmp_path / "x.npz", X=np.delete(X, 5, axis=0), y=np.delete(noisy, 5))
    capsys.readouterr()
    run("export", tmp_path / "r", "--suspects", "relabel", "--out", tmp_path / "o.csv")
    said = capsys.readouterr()
    assert said.err.startswith("kspr: 1 row of the run is gone from, or changed in, ")
    assert said.err.endswith(": '5'.\n")
    moved, there = selection.relabel().pile == "change", np.arange(900) != 5
    left = ~selection.clean_mask & ~moved & there
    assert f"{900 - 1 - left.sum()} rows: " in said.out
    words = f"{(moved & there).sum()} relabelled, {left.sum()} suspects left out; the list: "
    assert words in said.out


def test_rows_for_other_tools_and_what_is_refused(photos, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(photos)
    folder = tmp_path / "r"
    run("select", "photos", "--embedder", "mine:pixels", "--out", folder)
    capsys.readouterr()
    text = run(
        "export", folder, "--to", "label-studio", "--out", tmp_path / "t.json", capsys=capsys
    )
    suspects = int((~Selection.load(folder).clean_mask).sum())
    assert text.startswith(f"{suspects} rows: ")
    assert f"The labelling config: {tmp_path / 't.xml'}" in text
    said = ["export", folder, "--to", "fiftyone", "--out", tmp_path / "l.json"]
    assert json.loads(run(*said, "--json", capsys=capsys))["rows"] == 599
    assert "--rows" in fails(*said, "--suspects", "keep", capsys=capsys)
    said[-1] = tmp_path / "l.csv"
    assert "ends in .json" in fails(*said, capsys=capsys)


def test_a_source_that_has_moved_is_named(digits, tmp_path, capsys):
    X, _truth, noisy = digits
    np.savez(tmp_path / "x.npz", X=X, y=noisy)
    run("select", tmp_path / "x.npz", "--out", tmp_path / "r")
    (tmp_path / "x.npz").rename(tmp_path / "y.npz")
    arguments = ["export", tmp_path / "r", "--out", tmp_path / "o.csv"]
    assert "name its place with --source" in fails(*arguments, capsys=capsys)
    run(*arguments, "--source", tmp_path / "y.npz")
    assert (tmp_path / "o.csv").is_file()


def test_a_table_of_hugging_face_is_read_again_with_its_class_names(tmp_path, digits):
    datasets = pytest.importorskip("datasets", reason="Hugging Face datasets is not installed")
    X, _truth, noisy = digits
    names = sorted(set(noisy))
    kinds = datasets.Features(
        {
            "emb": datasets.Sequence(datasets.Value("float32")),
            "label": datasets.ClassLabel(names=names),
        }
    )
    rows = {"emb": X.tolist(), "label": noisy.tolist()}
    datasets.Dataset.from_dict(rows, features=kinds).save_to_disk(str(tmp_path / "saved"))
    run("select", tmp_path / "saved", "--out", tmp_path / "r")
    run("export", tmp_path / "r", "--suspects", "relabel", "--out", tmp_path / "o.parquet")
    found = datasets.Dataset.from_parquet(
        str(tmp_path / "o.parquet"), cache_dir=str(tmp_path / "c")
    )
    assert found.features["label"].names == names
    selection = Selection.load(tmp_path / "r")
    changed = selection.relabel()
    expected = changed.label[selection.clean_mask | (changed.pile == "change")]
    assert [names[code] for code in found["label"]] == expected.tolist()
