"""Labels with known noise, in every table format, readable as labels and as truth."""

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.runs.corrupt import Noise, write_noisy_labels
from kspr.sources.joining import read_label_file
from kspr.sources.options import AS_FOUND

NOISE = Noise("symmetric", 0.25, seed=3)


@pytest.fixture
def source(tmp_path, features, true_names):
    np.savez(tmp_path / "x.npz", X=features, y=true_names)
    return tmp_path / "x.npz"


@pytest.mark.parametrize("name", ["n.csv", "n.tsv", "n.csv.gz", "n.parquet", "n.pq", "n.arrow"])
def test_every_format_holds_the_same_noisy_labels(source, tmp_path, true_names, name):
    done = write_noisy_labels(source, tmp_path / name, NOISE, AS_FOUND, overwrite=False)
    label = read_label_file(tmp_path / name)
    assert (done.n, done.n_wrong) == (60, 15)
    assert (label != true_names).sum() == 15
    np.testing.assert_array_equal(read_label_file(tmp_path / name, "truth"), true_names)
    write_noisy_labels(source, tmp_path / "again.csv", NOISE, AS_FOUND, overwrite=False)
    np.testing.assert_array_equal(read_label_file(tmp_path / "again.csv"), label)


def test_what_cannot_work_is_refused_before_anything_is_written(source, tmp_path, features):
    def refused(path, noise=NOISE, out="n.csv"):
        with pytest.raises(InputError) as caught:
            write_noisy_labels(path, tmp_path / out, noise, AS_FOUND, overwrite=False)
        return str(caught.value)

    assert "--out must end in .csv, .parquet, .arrow or .jsonl, got 'n.xls'" in refused(
        source, out="n.xls"
    )
    np.save(tmp_path / "x.npy", features)
    assert "no labels that could be found. Name them with --label." in refused(tmp_path / "x.npy")
    pair = Noise("pair", 0.2, 0, ("cat:bird",))
    assert "--pairs takes from:to, both of them labels, got 'cat:bird'" in refused(source, pair)
    assert "needs --pairs" in refused(source, Noise("pair", 0.2, 0))
    assert not (tmp_path / "n.csv").exists()
    write_noisy_labels(source, tmp_path / "n.csv", NOISE, AS_FOUND, overwrite=False)
    assert "already exists" in refused(source)
