"""The commands from file to settled data set, as a user runs them."""

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from kspr import Selection
from tests.cli.commands import fails, run


def test_evaluate_finds_the_truth_in_the_source(made, digits, capsys):
    answer = json.loads(run("evaluate", made, "--json", capsys=capsys))
    _X, truth, noisy = digits
    selection = Selection.load(made)
    wrong_kept = (selection.clean_mask & (noisy != truth)).sum()
    assert answer["quality"]["fsr"] == pytest.approx(wrong_kept / selection.clean_mask.sum())
    assert answer["n_wrong"] == 270
    assert answer["kept_promise"] is True
    assert np.array(answer["confusion"]).sum() == 270
    text = run("evaluate", made, capsys=capsys)
    assert "digit-7" in text
    assert "recall" in text


def test_noise_select_evaluate_is_a_round_trip(digits, tmp_path, capsys):
    X, truth, _ = digits
    np.savez(tmp_path / "digits.npz", X=X, y=truth)
    noisy = tmp_path / "noisy.csv"
    run("noise", tmp_path / "digits.npz", "--rate", "0.25", "--seed", "3", "--out", noisy)
    rows = list(csv.DictReader(noisy.open()))
    assert sum(row["label"] != row["truth"] for row in rows) == 225
    assert [row["truth"] for row in rows] == truth.tolist()
    run(
        "select",
        tmp_path / "digits.npz",
        "--labels",
        noisy,
        "--label",
        "label",
        "--out",
        tmp_path / "r",
    )
    capsys.readouterr()
    answer = json.loads(run("evaluate", tmp_path / "r", "--truth", noisy, "--json", capsys=capsys))
    assert answer["n_wrong"] == 225
    assert answer["quality"]["fsr"] < 0.05


def test_noise_between_pairs_of_labels(digits, tmp_path):
    X, truth, _ = digits
    np.savez(tmp_path / "d.npz", X=X, y=truth)
    out = tmp_path / "n.parquet"
    run(
        "noise",
        tmp_path / "d.npz",
        "--kind",
        "pair",
        "--pairs",
        "digit-1:digit-7",
        "--rate",
        "0.5",
        "--out",
        out,
    )
    labels = pq.read_table(out).to_pandas()
    changed = labels[labels.label != labels.truth]
    assert set(changed.truth) == {"digit-1"}
    assert set(changed.label) == {"digit-7"}


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


def test_export_relabels_suspects(made, tmp_path):
    out = tmp_path / "all.csv"
    run("export", made, "--suspects", "relabel", "--out", out)
    selection, rows = Selection.load(made), list(csv.DictReader(out.open()))
    expected = np.where(selection.clean_mask, selection.label, selection.suggested_label)
    assert [row["species"] for row in rows] == expected.tolist()
    assert [row["kspr_given_label"] for row in rows] == selection.label.tolist()


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


def test_datasets_lists_formats_and_places(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KSPR_DATA", str(tmp_path))
    text = run("datasets", capsys=capsys)
    assert "parquet" in text
    assert str(tmp_path) in text
    answer = json.loads(run("datasets", "--json", capsys=capsys))
    assert {entry["name"] for entry in answer["published"]} >= {"cifar10", "clothing1m"}


# --- Images, end to end -----------------------------------------------------------------------

EMBEDDER = """
import numpy as np
def pixels(images):
    return np.stack([np.asarray(i.convert("L").resize((8, 8)), np.float32).ravel() for i in images])
"""


@pytest.fixture(scope="module")
def photos(digits, tmp_path_factory) -> Path:
    """A folder of images per given label; one image is broken."""
    root = tmp_path_factory.mktemp("photos")
    images = load_digits().images[:900]
    _X, _truth, noisy = digits
    for i in range(600):
        folder = root / "photos" / noisy[i]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[i] * 15).astype(np.uint8)).save(folder / f"{i:04d}.png")
    broken = next((root / "photos").glob("*/*.png"))
    broken.write_bytes(broken.read_bytes()[:40])
    (root / "mine.py").write_text(EMBEDDER)
    return root


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
