"""`kspr predict`, as it is typed."""

import json

import numpy as np
import pyarrow.csv
import pytest

from kspr.train import TrainSettings, fit
from tests.cli.commands import fails, run
from tests.train.digits import small_digits


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A file of digits with labels as text."""
    small = small_digits()
    path = tmp_path_factory.mktemp("data") / "digits.npz"
    np.savez(path, X=small.X, y=np.array([f"digit-{k}" for k in range(10)])[small.y])
    return path


@pytest.fixture(scope="module")
def trained(source, tmp_path_factory):
    """The folder of a short run on these digits."""
    out = tmp_path_factory.mktemp("runs") / "run"
    data = np.load(source)
    settings = TrainSettings.from_preset("cpu", epochs=2, batch_size=32, selection={"q": 0.2})
    fit(data["X"], data["y"], settings=settings, out=out)
    return out


def test_a_file_gets_one_row_per_sample(trained, source, tmp_path, capsys):
    out = tmp_path / "predictions.csv"
    said = run("predict", trained, source, "--out", out, capsys=capsys)
    assert "300 predictions" in said
    found = pyarrow.csv.read_csv(out)
    assert found.column_names == ["id", "predicted", "confidence", "label"]
    assert set(found["predicted"].to_pylist()) <= {f"digit-{k}" for k in range(10)}


def test_without_a_file_the_first_rows_are_printed(trained, source, capsys):
    said = run("predict", trained, source, capsys=capsys).splitlines()
    assert "of the source's labels are predicted" in said[0]
    assert len(said) == 1 + 20 + 1
    assert said[-1] == "... 280 more; --out FILE writes all of them"


def test_json_has_every_prediction(trained, source, capsys):
    found = json.loads(run("predict", trained, source, "--json", capsys=capsys))
    assert len(found["label"]) == len(found["confidence"]) == 300
    assert found["unreadable"] == 0


def test_another_kind_of_source_or_folder_is_a_sentence(trained, source, tmp_path, capsys):
    assert "no training run" in fails("predict", tmp_path, source, capsys=capsys)
    np.savez(tmp_path / "narrow.npz", X=np.zeros((5, 3), np.float32))
    message = fails("predict", trained, tmp_path / "narrow.npz", capsys=capsys)
    assert "rows of shape (3,); the network was trained on (64,)" in message
