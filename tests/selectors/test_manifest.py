"""The manifest names everything a result depends on but the data."""

import json

from kspr import KnockoffsSPR


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
