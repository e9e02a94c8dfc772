"""Output as JSON, and messages in flags."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from kspr.cli._common import INVOCATION, print_json, with_dashes
from kspr.cli.select import select
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


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass min_class_size=1 to have", "pass --min-class-size 1 to have"),
        ("n_splits=3 goes with control='a' or 'b'.", "--n-splits 3 goes with --control a or b."),
        ("q must lie in (0, 1). q is a rate.", "--q must lie in (0, 1). q is a rate."),
        ("Pass classes_per_group=None, or", "Pass no --classes-per-group, or"),
        ("strict=True avoids that", "--strict avoids that"),
        ("random_state must be a whole number", "--seed must be a whole number"),
        ("reduction=64 keeps", "--dimensions 64 keeps"),
    ],
)
def test_parameters_become_flags(message, shown):
    assert with_dashes(message, select) == shown


@pytest.mark.parametrize(
    "message",
    [
        "Asking for q = 0.07 would meet the level in all of them.",
        "--control transition cuts the level",
        "Class 'cut' has 3 samples at this level",
        "runs/q=0.05/rows.parquet cannot be read",
        "seed=0/rows.parquet cannot be read",
        "Choose another --n-splits.",
        "source=3, noise_rate=0.2 and scheduler are no options of this command, or plain words",
    ],
)
def test_words_flags_and_paths_stay(message):
    assert with_dashes(message, select) == message
