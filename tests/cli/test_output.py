"""Output as JSON."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kspr.cli._output import INVOCATION, print_json
from tests.cli.commands import run


@dataclass
class Answer:
    rate: float
    rows: np.ndarray
    where: Path


def test_values_of_all_kinds_become_one_json_document(capsys):
    print_json({"a": Answer(math.nan, np.arange(2), Path("x/y")), 3: (1.5, math.inf), "ü": "é"})
    text = capsys.readouterr().out
    expected = {
        "a": {"rate": None, "rows": [0, 1], "where": str(Path("x/y"))},
        "3": [1.5, None],
        "ü": "é",
    }
    assert json.loads(text) == expected
    assert "ü" in text


def test_the_command_is_known_as_it_was_typed(capsys):
    run("datasets", "--json", capsys=capsys)
    assert INVOCATION.get() == ("kspr", "datasets", "--json")


def test_json_holds_no_characters_that_act_on_a_terminal(capsys):
    value = {"label\x1b": "a\u202eb\x9bc\n", "tag": "\U000e0041", "é": "ü\u200d"}
    print_json(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert not set("\x1b\u202e\x9b\U000e0041") & set(text)
    assert "é" in text
