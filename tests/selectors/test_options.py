"""The options of a selector: light to import, in step with the estimators."""

import inspect
import subprocess
import sys
import typing
from dataclasses import fields

import pytest

from kspr import SPR, KnockoffsSPR, PaperKnockoffsSPR
from kspr.core.paper.knockoffs import STATISTICS
from kspr.core.paper.selection_times import PENALTIES
from kspr.selectors import options
from kspr.selectors.options import DEFAULT_Q, SelectorOptions
from kspr.selectors.presets import _KINDS


def test_options_are_imported_without_numpy():
    code = "import sys, kspr.selectors.options; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert found.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("names", "registry"),
    [
        (options.AnyControlName, {*typing.get_args(options.ControlName), "paper", "theorem"}),
        (options.PresetName, _KINDS),
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
    estimators = (KnockoffsSPR, PaperKnockoffsSPR, SPR)
    known = {name for kind in estimators for name in inspect.signature(kind).parameters}
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


def test_there_is_one_default_rate():
    assert KnockoffsSPR().q == DEFAULT_Q
