"""The paper's figures, drawn from trials."""

import re

import pytest

from kspr.experiments.reproduce.figures import draw
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.running import reproduce

FIGURES = [name for name in recipe_names() if load_recipe(name).shows != "table"]


def test_figures_are_the_same_bytes_for_the_same_result(once, tmp_path):
    first, second = (draw(once, tmp_path / f"{i}.svg") for i in range(2))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_a_whole_svg_file_that_names_its_data(name, tmp_path):
    found = reproduce(load_recipe(name), "smoke", tmp_path)
    text = draw(found, tmp_path / "figure.svg").read_text()
    assert text.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert text.rstrip().endswith("</svg>")
    assert "scale smoke" in text
    assert re.search("digits|made data", text)


def test_examples_are_drawn_with_given_and_true_class(tmp_path):
    found = reproduce(load_recipe("figure5"), "smoke", tmp_path)
    text = draw(found, tmp_path / "figure.svg").read_text()
    shown = [example for trial in found.trials for example in trial.values["examples"]]
    assert text.count("data:image/png;base64") == len(shown[:24])
