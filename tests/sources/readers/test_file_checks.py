"""Sentences and checks that all readers share."""

import errno
import os

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.sources.readers.file_checks import (
    check_exists,
    check_file,
    listed,
    no_such,
    readable,
    rows,
    shown,
)


def test_long_lists_and_values_are_cut():
    assert rows([7]) == "row 7"
    assert rows(range(3, 10)) == "rows 3, 4, 5, 6, 7 and 2 more"
    assert listed("abc", most=2) == "'a', 'b' and 1 more"
    assert len(listed(["x" * 100])) <= 60
    assert len(shown("x" * 100)) <= 40
    assert shown("x" * 100).endswith("...'")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("LABEL", "Did you mean 'label'?"),
        ("lable", "Did you mean 'label'?"),
        ("zzz", "It has 'label', 'size'."),
    ],
)
def test_a_wrong_name_is_answered_with_near_ones_else_with_all(asked, hint):
    assert str(no_such(asked, ["label", "size"], "x.csv")).endswith(hint)
    assert str(no_such("a", [], "x.npz", "array")).endswith("It has no arrays.")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty"),
        (b"\x80\x05", "is a pickle, not a table"),
        (b"PAR1", "is a parquet file, not a table"),
        (b"\x89PNG", "is a PNG image, not a table"),
    ],
)
def test_a_file_of_another_kind_is_named_by_what_it_is(tmp_path, content, complaint):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        check_file(path, "a table")
    with pytest.raises(InputError, match="is a folder, not a table"):
        check_file(tmp_path, "a table")
    path.write_bytes(b"PAR1 and more")
    assert check_file(path, "a parquet file", b"PAR1") == b"PAR1 and more"


@pytest.mark.parametrize(
    ("error", "complaint"),
    [
        (PermissionError(), "may not be read. Check its permissions"),
        (OSError(errno.ENOSPC, "full"), "There is no room for a temporary copy"),
        (
            OSError("broken"),
            r"cannot be read as a table; it may be cut short or damaged \(broken\)",
        ),
        (KeyError("name"), "it may be cut short or damaged"),
        (InputError("My own sentence."), r"^My own sentence\.$"),
    ],
)
def test_errors_of_libraries_become_one_sentence(tmp_path, error, complaint):
    def fail():
        with readable(tmp_path / "x", "a table"):
            raise error

    with pytest.raises(InputError, match=complaint):
        fail()


def test_a_mistake_of_ours_is_not_called_damage(tmp_path):
    def fail():
        with readable(tmp_path / "x", "a table"):
            raise AttributeError("a bug")

    with pytest.raises(AttributeError):
        fail()


@pytest.mark.parametrize("name", ["x.csv", "x.npy", "x.npz", "x.parquet", "x.arrow", "x.jsonl"])
def test_pipes_and_devices_are_refused_at_once(tmp_path, refusal, features, name):
    os.mkfifo(tmp_path / name)
    assert f"{name} is a pipe or a device; kspr reads regular files only" in refusal(
        tmp_path / name
    )
    (tmp_path / "d.csv").symlink_to("/dev/zero")
    np.save(tmp_path / "features.npy", features)
    message = refusal(tmp_path / "features.npy", labels=tmp_path / "d.csv")
    assert "d.csv is a pipe or a device" in message


def test_a_name_that_is_too_long_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"cannot be opened \(file name too long\)"):
        check_exists(tmp_path / ("n" * 5_000))
