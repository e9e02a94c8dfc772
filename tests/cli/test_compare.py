"""`kspr compare`: methods side by side, from the command line."""

import json

from tests.cli.commands import SAID, fails, run

FEW = ["--truth", "truth", "--methods", "kspr-pooled", "neighbours"]


def test_each_method_has_a_row_with_its_quality(table, tmp_path, capsys):
    command = ("compare", table, *SAID, *FEW, "--q", "0.2", "--out", tmp_path / "c")
    found = json.loads(run(*command, "--json", capsys=capsys))
    assert [cell["method"] for cell in found["cells"]] == ["kspr-pooled", "neighbours"]
    assert found["q"] == 0.2
    assert 0.25 < found["wrong"] < 0.35
    assert all(0 <= cell["fsr"] < found["wrong"] for cell in found["cells"])
    assert (tmp_path / "c" / "comparison.svg").is_file()
    printed = run(*command, capsys=capsys)
    assert "neighbours" in printed
    assert "comparison.json" in printed


def test_an_unknown_method_is_named_beside_the_known_ones(table, capsys):
    message = fails(
        "compare", table, *SAID, "--truth", "truth", "--methods", "magic", capsys=capsys
    )
    assert "magic" in message
    assert "neighbours" in message


def test_a_source_without_truth_is_named(table, capsys):
    message = fails("compare", table, *SAID, "--truth", "absent", capsys=capsys)
    assert "absent" in message
