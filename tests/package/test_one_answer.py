"""Evaluation, report, comparison, training and verification agree on which labels are right."""

import csv
import tempfile
from pathlib import Path

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr import KnockoffsSPR
from kspr.experiments.compare.comparing import compare
from kspr.experiments.compare.peers import Judged
from kspr.runs.evaluate import evaluate
from kspr.runs.rows import RunRows
from kspr.runs.run import Origin, save_run
from kspr.runs.verify import verify_run

pytest.importorskip("torch")

N, CLASSES = 60, 2
KINDS = {
    "int": lambda codes: codes,
    "float": lambda codes: codes.astype(np.float64),
    "text": lambda codes: codes.astype(str),
    "bool": lambda codes: codes.astype(bool),
    "object": lambda codes: codes.astype(object),
    "categorical": lambda codes: pandas.Categorical(codes),
    "categorical of text": lambda codes: pandas.Series(codes.astype(str), dtype="category"),
}
X = np.random.default_rng(0).standard_normal((N, 3)).astype(np.float32)


class Everything:
    """A peer that keeps all labels."""

    def judge(self, shared, *, seed):
        del seed
        return Judged(np.ones(len(shared.y), dtype=bool), np.arange(len(shared.y), dtype=float))


def wrong_by_training(y, truth) -> int:
    from kspr.train.settings import TrainSettings
    from kspr.train.task import make_task

    return int((~make_task(X, y, TrainSettings.from_preset("cpu"), truth=truth).truly_clean).sum())


def wrong_by_verification(selection, truth, folder: Path) -> int:
    """Write an answer for every row, as a person would fill the file in."""
    run = folder / "run"
    origin = Origin("nowhere", "arrays", {}, ("kspr",))
    rows = RunRows(np.arange(N), np.zeros(N, np.uint64))
    save_run(run, selection, rows, origin, overwrite=False)
    with (folder / "answers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "true_label", "drawn_from"])
        writer.writerows([row, label, "all"] for row, label in enumerate(np.asarray(truth)))
    found = verify_run(run, folder / "answers.csv")
    return round(found.estimates.noise_rate.value * N)


@pytest.mark.parametrize("true_kind", KINDS)
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1), flips=st.integers(1, N // 3))
def test_everyone_counts_the_same_wrong_labels(kind: str, true_kind: str, seed: int, flips: int):
    rng = np.random.default_rng(seed)
    true = rng.permutation(np.arange(N) % CLASSES)
    codes = true.copy()
    flipped = rng.permutation(N)[:flips]
    codes[flipped] = 1 - codes[flipped]
    y, truth = KINDS[kind](codes), KINDS[true_kind](true)
    selection = KnockoffsSPR(0.9, cut="pooled", progress=False).fit(X, y).selection_.at(0.999)
    assert evaluate(selection, truth).n_wrong == flips
    compared = compare(X, y, truth, {"all": Everything()}, progress=False)
    assert round(compared.wrong * N) == flips
    assert wrong_by_training(y, truth) == flips
    # A file of answers is text: "True" is no way to write the class "1".
    spelled = true_kind != "bool" or "text" not in kind
    if selection.clean_mask.any() and spelled:
        with tempfile.TemporaryDirectory() as folder:
            assert wrong_by_verification(selection, truth, Path(folder)) == flips
