"""The recipes: complete, true to the paper, and runnable at every scale."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.data import describe
from kspr.experiments.reproduce.recipes import SCALES, load_recipe, recipe_names
from kspr.experiments.reproduce.running import KINDS
from kspr.experiments.reproduce.trials import plan, selector_of

PAPER = Path(__file__).resolve().parents[4] / "shared" / "paper" / "knockoffs-spr.tex"
"""The source of the paper; where it is absent, what was transcribed is checked by its shape."""
SHAPES = {
    "table1": {"CIFAR-10": (16, 7), "CIFAR-100": (16, 7)},
    "table2": {"WebVision": (9, 4)},
    "table3": {"Clothing1M": (11, 1)},
    "table4": {"Sym. 40 %": (6, 3), "Sym. 80 %": (6, 3), "Asy. 40 %": (6, 3)},
    "table5": {"CIFAR-10": (2, 1)},
    "table6": {"CIFAR-10": (4, 3)},
}
LABELS = {
    "tab:main-results": "table1",
    "tab:webvision": "table2",
    "tab:clothing1m": "table3",
    "tab:pp-ablation": "table4",
    "tab:running-time": "table5",
    "tab:network-ablation": "table6",
    "fig:spr": "figure2",
    "fig:FSR-q": "figure3",
    "fig:FSR-split": "figure4",
    "fig:example": "figure5",
    "fig:spr-irr": "appendix-figure1",
}
"""The paper's own names; Fig. 1, a drawing of the idea, has no result to reproduce."""


def all_plans():
    return [(name, scale) for name in recipe_names() for scale in SCALES]


def test_every_table_and_figure_of_the_paper_has_a_recipe():
    assert set(recipe_names()) == set(LABELS.values()) | {"human-noise"}


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_the_paper_has_no_other_table_or_figure():
    found = set(re.findall(r"\\label\{((?:tab|fig):[^}]+)\}", PAPER.read_text()))
    assert found - set(LABELS) <= {"fig:framework", "fig:teaser", "fig:pipeline", "fig:overview"}


@pytest.mark.parametrize("name", SHAPES)
def test_the_reported_values_are_complete(name):
    reported = load_recipe(name).reported
    shapes = {
        section: (len(rows), *{len(entries) for entries in rows.values()})
        for section, rows in reported.items()
    }
    assert shapes == SHAPES[name]
    for rows in reported.values():
        for entries in rows.values():
            assert all(re.fullmatch(r"\d+\.\d+( ± \d+\.\d+)?|-|about 6h|66s", e) for e in entries)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
@pytest.mark.parametrize("name", SHAPES)
def test_the_reported_values_are_the_papers_in_its_order(name):
    label = next(label for label, recipe in LABELS.items() if recipe == name)
    text = PAPER.read_text()
    start = text.index(r"\begin{tabular}", text.index(rf"\label{{{label}}}"))
    table = text[start : text.index(r"\end{tabular}", start)]
    table = table[table.index(r"\midrule") :]
    printed = re.findall(r"\d+\.\d+", re.sub(r"Sym\. \d+|Asy\. \d+|\[?0\.5ex", "", table))
    rows = [row for rows in load_recipe(name).reported.values() for row in rows.values()]
    transcribed = [number for row in rows for e in row for number in re.findall(r"\d+\.\d+", e)]
    assert transcribed == printed


@pytest.mark.parametrize(("name", "scale"), all_plans())
def test_every_trial_can_be_planned_at_every_scale(name, scale):
    recipe = load_recipe(name)
    trials = plan(recipe, scale)
    assert trials
    assert recipe.scale(scale).note
    for trial in trials:
        assert trial.kind in KINDS
        assert describe(trial.source)
        if trial.variant.method is not None:
            from kspr.experiments.baselines import make_method

            make_method(trial.variant.method)
        elif trial.kind == "train":
            from kspr.experiments.reproduce.training import settings_of
            from kspr.train.settings import make_selector

            settings = settings_of(_without_checkpoints(trial))
            selects(make_selector(settings))
        else:
            selects(selector_of(trial))


TAKEN = set()
"""Selectors that have selected: most trials differ in their data and seed only."""


def selects(selector):
    """Fit a few rows: the parameters can be used, and go together."""
    selector.set_params(random_state=0)
    if str(selector) not in TAKEN:
        y = np.repeat(np.arange(3), 20)
        X = np.random.default_rng(0).standard_normal((60, 5)) + 4 * np.eye(5)[y]
        assert len(selector.fit(X, y).selection_) == 60
        TAKEN.add(str(selector))


def _without_checkpoints(spec):
    return replace(spec, settings={k: v for k, v in spec.settings.items() if k != "checkpoints"})


@pytest.mark.parametrize("name", recipe_names())
def test_smoke_says_what_stands_for_the_papers_data(name):
    scale = load_recipe(name).scale("smoke")
    for source in scale.data.values():
        assert "dataset" not in source
        assert re.match("scikit-learn's digits|made data", describe(source))
    assert re.search("(?i)digits|made data", scale.note)


@pytest.mark.parametrize("name", recipe_names())
def test_rows_that_we_run_have_the_papers_names_or_our_own(name):
    recipe = load_recipe(name)
    reported = {row for rows in recipe.reported.values() for row in rows}
    if reported:
        assert set(recipe.variants) - reported <= OURS.get(name, {"kspr default", "Cross-Entropy"})


OURS = {
    "table1": {
        "kspr default",
        "Bootstrap (soft)",
        "DivideMix",
        "ELR",
        "Graded supervision",
        "Logistic regression",
    }
}
"""Rows that the paper's table does not have: ours, and methods that have appeared since."""


@pytest.mark.parametrize("name", ["table1", "table2", "table3"])
def test_every_row_of_the_papers_comparison_is_run(name):
    recipe = load_recipe(name)
    rows = {row for rows in recipe.reported.values() for row in rows}
    assert rows <= set(recipe.variants)


def test_human_noise_runs_the_methods_of_tables_2_and_3():
    def methods(name):
        return {variant.method for variant in load_recipe(name).variants.values()}

    assert methods("table2") | methods("table3") <= methods("human-noise")


def test_a_paper_run_is_the_bare_procedure_of_the_paper():
    from kspr.experiments.reproduce.training import settings_of

    trials = [t for t in plan(load_recipe("table4"), "mini") if t.variant_name == "Knockoffs-SPR"]
    settings = settings_of(trials[0])
    assert settings.selector == "paper"
    assert not settings.guard
    # The preset's level is meant for our own selector.
    assert "q" not in settings.selection


@pytest.mark.parametrize(
    ("name", "data", "preset"),
    [
        ("table1", "CIFAR-10", "paper-cifar10"),
        ("table1", "CIFAR-100", "paper-cifar100"),
        ("table2", "WebVision", "paper-webvision"),
        ("table3", "Clothing1M", "paper-clothing1m"),
    ],
)
def test_the_papers_row_at_its_scale_is_the_papers_preset(name, data, preset):
    from kspr.experiments.reproduce.training import settings_of
    from kspr.train.settings import TrainSettings

    trials = plan(load_recipe(name), "paper")
    (trial,) = [t for t in trials if (t.variant_name, t.data) == ("Knockoffs-SPR", data)][:1]
    own, papers = settings_of(_without_checkpoints(trial)), TrainSettings.from_preset(preset)
    # There are no referees; the recipe names the file of weights that the paper begins from.
    assert replace(own, referee_parts=2, weights=None) == replace(papers, referee_parts=2)


def test_unknown_names_are_answered_in_a_sentence():
    with pytest.raises(InputError, match="no recipe 'table7'; there are table1"):
        load_recipe("table7")
    with pytest.raises(InputError, match="no scale 'huge'; there are smoke, mini, paper"):
        load_recipe("table1").scale("huge")
    with pytest.raises(InputError, match="seeds must be 1 or more"):
        plan(load_recipe("table1"), "smoke", seeds=0)
