"""Bad files and folders on the command line: one sentence, exit code 2, nothing half-written."""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import SAID, fails


def write(path: Path, content) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_missing_file_is_named(tmp_path, capsys):
    message = fails("select", tmp_path / "no.csv", "--out", tmp_path / "r", capsys=capsys)
    assert "no.csv" in message


def test_a_wrong_column_gets_the_near_ones(table, tmp_path, capsys):
    message = fails("select", table, "--label", "specis", "--out", tmp_path / "r", capsys=capsys)
    assert "species" in message
    assert not (tmp_path / "r").exists()


def test_labels_that_are_all_distinct_are_no_classes(table, tmp_path, capsys):
    arguments = ["--label", "id", "--features", "emb_*", "--out", tmp_path / "r"]
    message = fails("select", table, *arguments, capsys=capsys)
    assert "All 900 labels are distinct" in message


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("one.csv", "a,label\n1,x\n2,x\n3,x\n", "only one class"),
        ("row.csv", "a,label\n1,x\n", "X has 1 sample"),
        ("empty.csv", "", "empty.csv"),
        ("headless.csv", "a,label\n", "headless.csv"),
        ("cut.parquet", b"PAR1 and no more", "cut.parquet"),
        ("words.csv", "a,label\n1,x\nfoo,y\n3,x\n4,y\n", "words.csv"),
        ("odd.csv", b"a,label\n1,caf\xe9\n2,the\n", "odd.csv"),
        ("trap.npy", b"\x80\x04\x95cos\nsystem\n", "trap.npy"),
        ("what.xyz", "hello", "what.xyz"),
    ],
)
def test_files_that_cannot_work_are_refused(name, content, part, tmp_path, capsys):
    source = write(tmp_path / name, content)
    labels = ["--labels", write(tmp_path / "y.txt", "a\nb\n")] if name.endswith(".npy") else []
    message = fails("select", source, *labels, "--out", tmp_path / "r", capsys=capsys)
    assert part in message
    assert not (tmp_path / "r").exists()


def test_rows_that_do_not_match_are_counted(digits, tmp_path, capsys):
    np.save(tmp_path / "x.npy", digits[0])
    np.save(tmp_path / "y.npy", digits[1][:800])
    message = fails(
        "select",
        tmp_path / "x.npy",
        "--labels",
        tmp_path / "y.npy",
        "--out",
        tmp_path / "r",
        capsys=capsys,
    )
    assert "900" in message
    assert "800" in message


def test_a_run_is_not_overwritten_by_accident(made, table, capsys):
    before = sorted((p.name, p.stat().st_mtime_ns) for p in made.glob("*.parquet"))
    assert "--overwrite" in fails("select", table, *SAID, "--out", made, capsys=capsys)
    assert sorted((p.name, p.stat().st_mtime_ns) for p in made.glob("*.parquet")) == before


def test_other_peoples_folders_are_left_alone(table, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear")
    arguments = [*SAID, "--overwrite", "--out", tmp_path / "mine"]
    assert "not a run" in fails("select", table, *arguments, capsys=capsys)
    assert (tmp_path / "mine" / "diary.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("fault", "code"),
    [(OSError(28, "No space left on device", "disk"), 2), (KeyboardInterrupt(), 130)],
)
def test_a_full_disk_or_an_interrupt_leaves_nothing_half_written(
    fault, code, table, tmp_path, monkeypatch, capsys
):
    def fail(*args, **kwargs):
        raise fault

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    fails("select", table, *SAID, "--out", tmp_path / "r", capsys=capsys, code=code)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_without_a_name_is_called_no_file(table, tmp_path, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pyarrow.parquet.ParquetWriter.write_table", fail)
    message = fails("select", table, *SAID, "--out", tmp_path / "r", capsys=capsys)
    assert message == "kspr: No space left on device\n"


@pytest.mark.parametrize("command", ["report", "evaluate", "export"])
def test_what_is_no_run_is_refused(command, tmp_path, capsys):
    extra = ["--out", tmp_path / "x.csv"] if command == "export" else []
    assert "not a run" in fails(command, tmp_path, *extra, capsys=capsys)
