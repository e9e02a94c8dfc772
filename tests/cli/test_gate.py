"""`kspr gate`: exit codes, and what is printed and written."""

import json
from xml.etree import ElementTree

import pytest

from tests.cli.commands import fails, run
from tests.runs.samples import check, digits_run

ASKED = ("--max-wrong", 0.05, "--min-kept", 0.5)


@pytest.fixture
def checked(tmp_path):
    made = digits_run(tmp_path)
    check(made)
    return made.folder


def test_a_run_that_passes_is_shown_line_by_line(checked, capsys):
    text = run("gate", checked, *ASKED, capsys=capsys)
    assert [line.split()[0] for line in text.splitlines()[1:]] == ["ok", "ok", "ok"]
    assert "by 100 checked rows, drawn by kspr" in text


def test_a_run_that_fails_ends_with_a_sentence_and_exit_code_1(checked, tmp_path, capsys):
    junit = tmp_path / "gate.xml"
    message = fails(
        "gate", checked, "--max-wrong", 0.01, "--min-kept", 0.5, "--junit", junit,
        capsys=capsys, code=1,
    )  # fmt: skip
    assert message.startswith("kspr: the run does not pass. At most 5 % of the kept labels")
    assert "The limit is 1 %." in message
    suite = ElementTree.parse(junit).getroot()  # noqa: S314 - our own file
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")


def test_json_has_what_was_asked_and_found(checked, capsys):
    found = json.loads(run("gate", checked, *ASKED, "--json", capsys=capsys))
    assert found["passed"] is True
    assert (found["evidence"], found["bound"]) == ("checked", 0.05)
    assert [one["met"] for one in found["requirements"]] == [True, True, True]


def test_bad_input_ends_with_exit_code_2(tmp_path, checked, capsys):
    assert "is not a run of kspr" in fails("gate", tmp_path, *ASKED, capsys=capsys)
    assert "--max-wrong must lie in (0, 1)" in fails(
        "gate", checked, "--max-wrong", "nan", "--min-kept", 0.5, capsys=capsys
    )


def test_both_limits_must_be_given(checked, capsys):
    assert "--min-kept" in fails("gate", checked, "--max-wrong", 0.05, capsys=capsys)
    assert "--max-wrong" in fails("gate", checked, "--min-kept", 0.5, capsys=capsys)
