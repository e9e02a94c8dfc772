"""The manifest names everything a result depends on but the data."""

import json

import numpy as np

from kspr import KnockoffsSPR
from kspr.selectors.base import fingerprint, plain
from kspr.selectors.look import look
from kspr.selectors.parts import HostFeatures


def test_the_manifest_tells_where_a_result_comes_from(digits40, tmp_path):
    model = KnockoffsSPR(q=0.07, random_state=5).fit(digits40.X, digits40.y)
    about = json.loads((model.selection_.save(tmp_path / "m") / "manifest.json").read_text())
    manifest = about["manifest"]
    assert manifest["parameters"]["q"] == 0.07
    assert manifest["n_samples"] == 1797
    assert set(manifest["versions"]) == {"python", "kspr", "numpy", "scikit-learn"}
    changed = digits40.X.copy()
    changed[7, 3] += 1
    other = KnockoffsSPR(q=0.07, random_state=5).fit(changed, digits40.y).selection_.manifest
    assert other.fingerprint != manifest["fingerprint"]


def digest(X: np.ndarray, y: np.ndarray) -> str:
    content = look(HostFeatures(X), find_copies=False).content
    return fingerprint(content, X.shape, y)


def test_a_fingerprint_is_that_of_the_data_however_it_is_stored(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((700, 4)), rng.integers(0, 3, 700)
    np.save(tmp_path / "X.npy", X)
    stored = np.load(tmp_path / "X.npy", mmap_mode="r")
    first = digest(X, y)
    assert digest(stored, y.astype(object)) == first
    changed = X.copy()
    changed[699, 3] += 1e-12
    assert digest(changed, y) != first
    assert digest(X, (y + 1) % 3) != first


def test_parameters_are_stored_as_json_can_hold_them():
    assert plain(np.float32(0.5)) == 0.5
    assert plain(None) is None
    assert plain(dict) == "<class 'dict'>"
