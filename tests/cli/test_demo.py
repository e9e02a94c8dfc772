"""`kspr demo`, run as a user runs it."""

import re
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import kspr
from kspr.cli.demo import _on_chance


def run(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "kspr", *arguments], capture_output=True, text=True, cwd=cwd
    )


def test_demo_shows_its_findings_and_where_they_are(tmp_path):
    done = run("demo", "--out", "found", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "right labels were" in said
    assert "at most" not in said
    assert (tmp_path / "found" / "suspects.png").read_bytes()[:4] == b"\x89PNG"
    # The last line works where kspr is not on the PATH, too.
    assert said.endswith("kspr review found/run")
    assert re.search(r"Of the 100 most suspicious labels (9\d|100) are wrong", said)
    selection = kspr.Selection.load(tmp_path / "found" / "run")
    assert len(selection) == 1797
    assert 0.3 < selection.clean_mask.mean() < 0.7
    assert run("demo", "--out", "found", "--q", "0.1", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ([0.0] * 10, "No digit lies above 5.0%"),
        ([0.081] + [0.03] * 9, "1 of the 10 digits lies above 5.0%"),
        ([0.06] * 4 + [0.03] * 6, "4 of the 10 digits lie above 5.0%"),
    ],
)
def test_classes_above_the_rate_are_explained_by_chance(shares, words):
    quality = [SimpleNamespace(fsr=share) for share in shares]
    result = SimpleNamespace(
        selection=SimpleNamespace(clean_mask=np.ones(1000, dtype=bool)), class_quality=quality
    )
    text = _on_chance(result, 0.05)
    assert words in text
    # The standard deviation of a share of 5 % among 100 labels.
    assert "scatters by about 2.2 points" in text
    assert "rests on an assumption" in text
