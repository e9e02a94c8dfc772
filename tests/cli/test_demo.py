"""`kspr demo`, run as a user runs it."""

import re
import subprocess
import sys

import kspr


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
    assert "It rests on an assumption that holds here" in said
    assert (tmp_path / "found" / "suspects.png").read_bytes()[:4] == b"\x89PNG"
    # The last line works where kspr is not on the PATH, too.
    assert said.endswith("kspr review found/run")
    assert re.search(r"Of the 100 most suspicious labels (9\d|100) are wrong", said)
    selection = kspr.Selection.load(tmp_path / "found" / "run")
    assert len(selection) == 1797
    assert 0.3 < selection.clean_mask.mean() < 0.7
    assert run("demo", "--out", "found", "--q", "0.1", cwd=tmp_path).returncode == 0
