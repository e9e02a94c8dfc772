"""Predictions for a source, and the files they are written to."""

from pathlib import Path

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from kspr.errors import InputError
from kspr.sources.options import AS_FOUND
from kspr.train import fit
from kspr.train.source import Predictions, predict_source

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
