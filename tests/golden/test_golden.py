"""Selections give the answers that they gave before, on any machine.

Answers are equal to the last bit on one machine; float32 is rounded otherwise on others. What a
change of the method changes on purpose is written anew by `python -m tests.golden.golden compact`.
"""

import numpy as np
import pytest

from tests.golden.cases import CASES
from tests.golden.compact import compacted, labels_of, mask_of, read_compact

STORED = read_compact()
SHARE = 0.005
"""Share of the rows that may differ."""
ROUNDING = 1e-3


def test_all_cases_are_stored():
    assert list(STORED) == list(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_that_of_before(name):
    if name.startswith("dask"):
        pytest.importorskip("distributed")
    before, after = STORED[name], compacted(CASES[name]())
    if "masks" not in before:
        for part, numbers in before.items():
            assert after[part] == pytest.approx(numbers, rel=ROUNDING)
        return
    n = before["n"]
    assert after["n"] == n
    assert after["status"] == before["status"]
    assert abs(after["n_kept"] - before["n_kept"]) <= max(1, SHARE * before["n_kept"])
    assert after["masks"].keys() == before["masks"].keys()
    for part, mask in before["masks"].items():
        share = np.mean(mask_of(mask, n) != mask_of(after["masks"][part], n))
        assert share <= SHARE, f"{part}: {share:.2%} of the rows"
    same = labels_of(before["suggested"]) == labels_of(after["suggested"])
    assert same.mean() >= 1 - SHARE
    for part in ("rows", "noise"):
        assert after[part].keys() == before[part].keys()
        for what, numbers in before[part].items():
            found = after[part][what]
            close = [
                a == b if a is None or b is None else abs(a - b) <= ROUNDING * max(1, abs(b))
                for a, b in zip(found, numbers, strict=True)
            ]
            assert all(close), f"{what}: {found} instead of {numbers}"
