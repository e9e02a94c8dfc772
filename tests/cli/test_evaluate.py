"""`kspr evaluate`: a run against the true labels."""

import json

import numpy as np
import pytest

from kspr import Selection
from tests.cli.commands import run


def test_evaluate_finds_the_truth_in_the_source(made, digits, capsys):
    answer = json.loads(run("evaluate", made, "--json", capsys=capsys))
    _X, truth, noisy = digits
    selection = Selection.load(made)
    wrong_kept = (selection.clean_mask & (noisy != truth)).sum()
    assert answer["quality"]["fsr"] == pytest.approx(wrong_kept / selection.clean_mask.sum())
    assert answer["n_wrong"] == 270
    # One draw: the mean of many stays within q, a single one need not.
    assert answer["kept_promise"] is (answer["quality"]["fsr"] <= 0.05)
    assert np.array(answer["confusion"]).sum() == 270
    text = run("evaluate", made, capsys=capsys)
    assert "digit-7" in text
    assert "recall" in text
