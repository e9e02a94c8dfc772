"""`kspr noise`: labels of which a known share is wrong."""

import csv
import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from kspr.selectors import Selection
from tests.cli.commands import fails, run


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
    # Counted here once more.
    kept = Selection.load(tmp_path / "r").clean_mask
    wrong = np.array([row["label"] != row["truth"] for row in rows])
    assert answer["quality"]["fsr"] == pytest.approx(wrong[kept].mean())
    assert answer["quality"]["fsr"] < 0.08  # q, and three standard errors of one draw


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
        "digit-4:digit-9",
        "--rate",
        "0.5",
        "--out",
        out,
    )
    labels = pq.read_table(out).to_pandas()
    changed = labels[labels.label != labels.truth]
    assert set(zip(changed.truth, changed.label, strict=True)) == {
        ("digit-1", "digit-7"),
        ("digit-4", "digit-9"),
    }


def test_rows_without_a_label_get_no_noise(tmp_path, capsys):
    lines = [f"{k},{'' if k == 7 else 'xy'[k % 2]}" for k in range(20)]
    (tmp_path / "x.csv").write_text("\n".join(["a,label", *lines]))
    arguments = ["noise", tmp_path / "x.csv", "--rate", "0.5", "--out", tmp_path / "n.csv"]
    assert "has no label in row 7" in fails(*arguments, capsys=capsys)
    run(*arguments, "--missing", "drop")
    rows = list(csv.DictReader((tmp_path / "n.csv").open()))
    assert [int(row["row"]) for row in rows] == [k for k in range(20) if k != 7]
