"""`kspr datasets`: formats and published data sets."""

import json

from kspr.sources.formats import FORMATS
from tests.cli.commands import run


def test_datasets_lists_formats_and_places(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("KSPR_DATA", str(tmp_path))
    text = run("datasets", capsys=capsys)
    assert "parquet" in text
    assert str(tmp_path) in text
    answer = json.loads(run("datasets", "--json", capsys=capsys))
    assert {entry["name"] for entry in answer["published"]} >= {"cifar10", "clothing1m"}


def test_every_format_is_listed_with_its_suffixes_and_uses(capsys):
    lines = run("datasets", capsys=capsys).splitlines()
    for known in FORMATS:
        [line] = [line for line in lines if line.startswith(f"{known.name} ")]
        assert all(suffix in line for suffix in known.suffixes)
        assert ("export" in line) == known.is_written
        assert line.endswith(known.about)
    answer = json.loads(run("datasets", "--json", capsys=capsys))
    assert [entry["name"] for entry in answer["formats"]] == [known.name for known in FORMATS]
    assert {entry["name"] for entry in answer["formats"] if entry["is_written"]} >= {"csv", "arrow"}
