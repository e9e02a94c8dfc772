"""The options of a selector: light to import, in step with the estimators, named as flags."""

import inspect
import subprocess
import sys
import typing
from dataclasses import fields

import pytest

from kspr import SPR, KnockoffsSPR
from kspr.core.knockoffs import STATISTICS
from kspr.core.penalties import PENALTIES
from kspr.selectors import options
from kspr.selectors.controls.registry import CONTROLS
from kspr.selectors.engines import ENGINES
from kspr.selectors.options import DEFAULT_Q, SelectorOptions, in_flags


def test_options_are_imported_without_numpy():
    code = "import sys, kspr.selectors.options; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("names", "registry"),
    [
        (options.ControlName, CONTROLS),
        # On a cluster, passes are run instead of pieces.
        (options.EngineName, {*ENGINES, "dask"}),
        (options.PenaltyName, PENALTIES),
        (options.StatisticName, STATISTICS),
    ],
)
def test_the_names_of_a_choice_are_those_of_its_registry(names, registry):
    assert set(typing.get_args(names)) == set(registry)


def test_every_option_is_a_parameter_of_an_estimator_and_documented():
    source = inspect.getsource(SelectorOptions)
    chosen = SelectorOptions(
        **{field.name: field.default for field in fields(SelectorOptions)}
        | dict.fromkeys((f.name for f in fields(SelectorOptions) if f.name != "preset"), 1)
    )
    known = {*inspect.signature(KnockoffsSPR).parameters, *inspect.signature(SPR).parameters}
    assert set(chosen.changes()) <= known
    assert len(chosen.changes()) == len(fields(SelectorOptions)) - 1
    assert source.count('"""') == 2 * (len(fields(SelectorOptions)) + 2)


def test_what_is_not_chosen_is_left_to_the_preset():
    assert SelectorOptions().changes() == {"random_state": 0}
    assert SelectorOptions(dimensions=3, cut="pooled", seed=4).changes() == {
        "cut": "pooled",
        "reduction": 3,
        "random_state": 4,
    }


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("pass min_class_size=1 to have", "pass --min-class-size 1 to have"),
        ("n_splits=3 goes with control='a' or 'b'.", "--n-splits 3 goes with --control a or b."),
        ("q must lie in (0, 1). q is a rate.", "--q must lie in (0, 1). --q is a rate."),
        ("Pass classes_per_group=None, or", "Pass no --classes-per-group, or"),
        ("remove_floor=True avoids that", "--remove-floor avoids that"),
        ("random_state must be a whole number", "--seed must be a whole number"),
        ("reduction=64 keeps", "--dimensions 64 keeps"),
        ("`checked` lists row 7 twice.", "--checked lists row 7 twice."),
    ],
)
def test_parameters_become_flags(message, shown):
    assert in_flags(message) == shown


@pytest.mark.parametrize(
    "message",
    [
        "Asking for q = 0.07 would meet the level in all of them.",
        "--control transition cuts the level",
        "Class 'cut' has 3 samples at this level",
        "runs/q=0.05/rows.parquet cannot be read",
        "seed=0/rows.parquet cannot be read",
        "Choose another --n-splits.",
    ],
)
def test_words_flags_and_paths_stay(message):
    assert in_flags(message) == message


@pytest.mark.parametrize("name", [f.name for f in fields(SelectorOptions)])
def test_every_option_is_known_by_its_flag(name):
    assert in_flags(f"{name}=3") == f"--{name.replace('_', '-')} 3"


def test_there_is_one_default_rate():
    assert KnockoffsSPR().q == DEFAULT_Q
