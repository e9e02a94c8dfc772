"""The list of formats: names, suffixes, and which format a name asks for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from kspr.errors import InputError
from kspr.sources.formats import FORMATS, find_format, format_of, some_suffixes, written_format


def test_names_and_suffixes_belong_to_one_format_each():
    assert len({known.name for known in FORMATS}) == len(FORMATS)
    suffixes = [suffix for known in FORMATS for suffix in known.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    for known in FORMATS:
        assert known.about
        assert "\n" not in known.about
        assert known.is_source or known.has_labels or known.is_written


@pytest.mark.parametrize("known", FORMATS, ids=lambda known: known.name)
def test_a_file_is_recognised_by_each_of_its_suffixes(known):
    for suffix in known.suffixes:
        assert format_of(Path(f"some.name{suffix}")) is known
        assert format_of(Path(f"NAME{suffix.upper()}")) is known


@pytest.mark.parametrize("name", ["x", "x.doc", "csv", "x.parquet.gz", "x.gz", "x.npy.txt2"])
def test_an_unknown_suffix_is_no_format(name):
    assert format_of(Path(name)) is None


def test_a_folder_is_recognised_by_what_it_holds(tmp_path):
    assert format_of(tmp_path).name == "imagefolder"
    (tmp_path / "state.json").write_text("{}")
    assert format_of(tmp_path).name == "huggingface"
    (tmp_path / "_x.parquet").write_bytes(b"")
    assert format_of(tmp_path).name == "huggingface"
    (tmp_path / "x.pq").write_bytes(b"")
    assert format_of(tmp_path).name == "parquet"


@pytest.mark.parametrize(
    ("out", "to", "expected"),
    [
        ("a.csv", None, "csv"),
        ("a.tsv.gz", None, "csv"),
        ("a.PQ", None, "parquet"),
        ("a.feather", None, "arrow"),
        ("a.jsonl", "jsonl", "jsonl"),
        ("a.data", "parquet", "parquet"),
        ("clean", "imagefolder", "imagefolder"),
        ("clean", "huggingface", "huggingface"),
        ("tasks.json", "label-studio", "label-studio"),
        ("labels.JSON", "fiftyone", "fiftyone"),
    ],
)
def test_the_suffix_says_what_is_written_and_to_may_agree(out, to, expected):
    assert written_format(Path(out), to).name == expected


def test_a_name_that_contradicts_the_format_is_refused():
    with pytest.raises(InputError, match=r"--to csv contradicts --out a.parquet, whose suffix"):
        written_format(Path("a.parquet"), "csv")
    with pytest.raises(InputError, match=r"--to imagefolder contradicts --out a.csv"):
        written_format(Path("a.csv"), "imagefolder")
    with pytest.raises(InputError, match=r"--to fiftyone writes a file that ends in .json"):
        written_format(Path("a.csv"), "fiftyone")
    with pytest.raises(InputError, match=r"must end in .csv, .parquet, .arrow or .jsonl, got 'a'"):
        written_format(Path("a"))
    with pytest.raises(InputError, match=r"got 'a.npy'\. For another name"):
        written_format(Path("a.npy"))


def test_messages_name_the_usual_suffixes():
    few = tuple(find_format(name) for name in ("npy", "csv", "imagefolder", "parquet"))
    assert some_suffixes(few) == ".npy, .csv or .parquet"
    assert some_suffixes(few[:1]) == ".npy"


def test_the_list_is_quick_to_import():
    code = "import sys, json, kspr.sources.formats; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "pyarrow", "PIL"} & set(json.loads(done.stdout))
