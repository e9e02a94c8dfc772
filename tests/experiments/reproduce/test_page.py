"""Results as text and Markdown, and docs/results.md, which holds what was run and no more."""

import re
import shutil
from pathlib import Path

import pytest

from kspr.experiments.reproduce.page import markdown_table, render_markdown, render_text
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
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
