"""Results as text and Markdown, and docs/results.md, which holds what was run and no more."""

import re
import shutil
from pathlib import Path

import pytest

from kspr.experiments.reproduce.page import markdown_table, render_markdown, render_text
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import Reproduction, Trial
from kspr.experiments.reproduce.running import reproduce

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import results

    return results


def test_the_page_is_made_from_the_stored_runs(results):
    assert results.PAGE.read_text() == results.render_page(results.stored())


def test_every_figure_of_the_page_has_a_stored_run(results):
    shown = set(re.findall(r"!\[[^]]*\]\(figures/([^)]+)\)", results.PAGE.read_text()))
    stored = {results.FIGURES[name] for name in results.stored() if name in results.FIGURES}
    assert shown == stored
    drawn = {path.name for path in (results.PAGE.parent / "figures").glob("reproduced-*.svg")}
    assert drawn == stored


def test_every_figure_recipe_has_a_place_on_the_page(results):
    figures = {name for name in recipe_names() if load_recipe(name).shows != "table"}
    assert set(results.FIGURES) == figures


def test_a_stored_run_is_shown_with_its_command(results, tmp_path, monkeypatch):
    made = reproduce(
        load_recipe("figure4"), "smoke", tmp_path, command=("kspr", "reproduce", "figure4")
    )
    text = results.render_page({"figure4": made})
    assert "`kspr reproduce figure4`" in text
    assert "![" in text
    assert text.count("not yet") == len(recipe_names()) - 1


def test_smoke_never_reaches_the_page(results, tmp_path, monkeypatch):
    reproduce(load_recipe("figure2"), "smoke", tmp_path)
    shutil.rmtree(tmp_path / "trials")
    monkeypatch.setattr(results, "STORED", tmp_path)
    with pytest.raises(ValueError, match="of the scale smoke"):
        results.stored()


def test_the_page_says_where_ours_is_ahead_and_by_whom_it_is_beaten():
    def trial(data, noise, variant, seed, accuracy):
        values = {"accuracy": accuracy + 0.01 * seed}
        return Trial(data, noise, variant, seed, values, 1.0, "2026-01-01", "s", f"{variant}{seed}")

    accuracies = {
        ("CIFAR-10", "Sym. 40 %"): (0.7, 0.8, 0.75),
        ("CIFAR-10", "Asy. 40 %"): (0.7, 0.6, 0.65),
        ("CIFAR-100", "Sym. 40 %"): (0.5, 0.4, 0.3),
        ("CIFAR-100", "Asy. 40 %"): (0.5, 0.4, 0.45),
    }
    trials = [
        trial(*place, variant, seed, accuracy)
        for place, row in accuracies.items()
        for variant, accuracy in zip(("kspr default", "GCE", "Co-teaching"), row, strict=True)
        for seed in (0, 1)
    ]
    about = {"cpu": "one", "cores": 2, "versions": {"knockoffs-spr": "0.1.0"}}
    data = {"CIFAR-10": "digits", "CIFAR-100": "made"}
    found = Reproduction("table1", "smoke", (), about, data, {}, tuple(trials))
    said = (
        "`kspr default` has the highest accuracy in 3 of 4 columns. Ahead of it: GCE on CIFAR-10, "
        "Sym. 40 % (80.5 ± 0.5, ours 70.5 ± 0.5); Co-teaching (t) on CIFAR-10, Sym. 40 % "
        "(75.5 ± 0.5, ours 70.5 ± 0.5)."
    )
    assert said in render_markdown(found)
    assert said in render_text(found)


@pytest.fixture(scope="module")
def table4(tmp_path_factory):
    return reproduce(load_recipe("table4"), "smoke", tmp_path_factory.mktemp("table4"))


def test_table_entries_show_ours_beside_the_papers(table4):
    row = next(line for line in render_text(table4).splitlines() if "*-multi" in line)
    ours = table4.estimate(None, "Sym. 40 %", "*-multi", "accuracy").mean
    assert f"{100 * ours:.1f} (94.4)" in row
    assert "(2.00 ± 0.00)" in row


def test_text_and_markdown_show_the_same_entries(table4):
    text, markdown = render_text(table4), render_markdown(table4)
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert len(rows) > 5
    for row in rows:
        for entry in filter(None, row.replace("\\*", "*").strip("| ").split(" | ")):
            assert entry.strip() in text


def test_a_star_before_a_dash_does_not_start_emphasis():
    assert markdown_table(["method"], [["*-random"]]).splitlines()[-1] == r"| \*-random |"
