"""The result of a recipe: stored, read back, and shown; and docs/results.md, which shows them."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kspr.errors import InputError
from kspr.experiments.reproduce.recipes import load_recipe, recipe_names
from kspr.experiments.reproduce.rendering import markdown_table, render_markdown, render_text
from kspr.experiments.reproduce.reproduction import Reproduction, Trial, read_reproduction
from kspr.experiments.reproduce.running import reproduce
from tests.experiments.reproduce.samples import QUICK, values

ROOT = Path(__file__).resolve().parents[3]
ABOUT = {"cpu": "one", "cores": 2, "versions": {"knockoffs-spr": "0.1.0"}, "commit": "abc"}


def test_the_result_can_be_read_back(once, tmp_path):
    reproduce(QUICK, "smoke", tmp_path, command=("kspr", "reproduce"))
    path = tmp_path / "figure4-smoke.json"
    found = read_reproduction(path)
    assert values(found) == values(once)
    assert found.command == ("kspr", "reproduce")
    assert json.loads(path.read_text())["data"] == {"CIFAR-10": "scikit-learn's digits"}
    with pytest.raises(InputError, match="holds no result"):
        read_reproduction(tmp_path / "none.json")


def test_a_variant_may_be_read_from_anothers_run(tmp_path):
    found = reproduce(load_recipe("table6"), "smoke", tmp_path)
    full = found.of(None, "Sym. 40 %", "Knockoffs-SPR")[0].values
    without = found.estimate(None, "Sym. 40 %", "Knockoffs-SPR - EMA", "accuracy").mean
    assert without == full["accuracy_weights"]


def trial(seed, **values):
    return stored("CIFAR-10", "Sym. 40 %", "10 classes", seed, values)


def stored(data, noise, variant, seed, values, when="2026-12-01", commit="abc"):
    return Trial(data, noise, variant, seed, {}, values, 1.0, when, "0.1.0", commit, "one, 2 cores")


def result(*trials):
    return Reproduction("figure4", "smoke", (), ABOUT, {"CIFAR-10": "digits"}, {}, trials)


def test_an_estimate_is_the_mean_over_seeds_with_its_standard_error():
    found = result(*(trial(seed, fsr=fsr) for seed, fsr in enumerate((0.1, 0.2, 0.3))))
    estimate = found.estimate(None, "Sym. 40 %", "10 classes", "fsr")
    assert estimate.mean == pytest.approx(0.2)
    assert estimate.spread == pytest.approx(0.1 / 3**0.5)
    assert estimate.seeds == found.seeds == 3
    assert found.seconds == 3.0


def test_one_seed_has_no_standard_error_and_a_missing_measure_no_estimate():
    found = result(trial(0, fsr=0.1, recall=None))
    assert found.estimate(None, "Sym. 40 %", "10 classes", "fsr").spread is None
    assert found.estimate(None, "Sym. 40 %", "10 classes", "recall") is None
    assert found.estimate(None, "Asy. 40 %", "10 classes", "fsr") is None


def test_the_spread_of_q_is_that_over_cut_groups():
    found = result(*(trial(seed, q=0.1, q_spread=0.04) for seed in range(2)))
    assert found.estimate(None, "Sym. 40 %", "10 classes", "q").spread == pytest.approx(0.04)


def test_the_page_says_which_code_computed_its_numbers():
    place = ("CIFAR-10", "Sym. 40 %")
    now = stored(*place, "10 classes", 0, {"fsr": 0.1})
    text = render_markdown(result(now))
    assert "one, 2 cores; kspr 0.1.0 of commit abc." in text
    assert "Older" not in text
    past = stored(*place, "5 classes", 0, {"fsr": 0.1}, "2026-11-16T05:25", None)
    text = render_text(result(now, past))
    assert "kspr 0.1.0 of commit abc (1 trial)" in text
    assert "kspr 0.1.0, before commits were stored (1 trial)" in text
    assert "Older, of another version or commit than the last run: 5 classes (1 trial)" in text
    assert "`--again` runs them anew" in text
    # A package that was installed from no checkout has no commit, whenever that was.
    assert "kspr 0.1.0 (1 trial)" in render_text(result(now, replace(now, commit=None)))


@pytest.fixture
def results(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import results

    return results


def test_every_figure_of_the_page_has_a_stored_run(results):
    shown = set(re.findall(r"!\[[^]]*\]\(figures/([^)]+)\)", results.BENCH.page.read_text()))
    stored = {results.FIGURES[name] for name in results.stored() if name in results.FIGURES}
    assert shown == stored
    drawn = {path.name for path in (results.BENCH.page.parent / "figures").glob("reproduced-*.svg")}
    assert drawn == stored


def test_every_figure_recipe_has_a_place_on_the_page(results):
    figures = {name for name in recipe_names() if load_recipe(name).shows != "table"}
    assert set(results.FIGURES) == figures


def test_a_stored_run_is_shown_with_its_command(results, tmp_path, monkeypatch):
    made = reproduce(
        load_recipe("figure4"), "smoke", tmp_path, command=("kspr", "reproduce", "figure4")
    )
    text = "".join(results.parts({"figure4": made}).values())
    assert "`kspr reproduce figure4`" in text
    assert "![" in text
    assert text.count("not yet") == len(recipe_names()) - 1
    # What was not run stands there with the paper's values alone.
    assert "|  | Knockoffs-SPR | - (75.20) |" in text
    assert "has the highest accuracy" not in text


def test_smoke_never_reaches_the_page(results, tmp_path, monkeypatch):
    reproduce(load_recipe("figure2"), "smoke", tmp_path)
    shutil.rmtree(tmp_path / "trials")
    monkeypatch.setattr(results, "STORED", tmp_path)
    with pytest.raises(ValueError, match="of the scale smoke"):
        results.stored()


def test_the_page_says_where_ours_is_ahead_and_by_whom_it_is_beaten():
    def trial(data, noise, variant, seed, accuracy):
        values = {"accuracy": accuracy + 0.01 * seed}
        return stored(data, noise, variant, seed, values)

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
    data = {"CIFAR-10": "digits", "CIFAR-100": "made"}
    found = Reproduction("table1", "smoke", (), ABOUT, data, {}, tuple(trials))
    said = (
        "`kspr default` has the highest accuracy in 3 of 4 columns. Ahead of it: GCE on digits, in "
        "place of CIFAR-10, Sym. 40 % (80.5 ± 0.5, ours 70.5 ± 0.5); Co-teaching (t) on digits, in "
        "place of CIFAR-10, Sym. 40 % (75.5 ± 0.5, ours 70.5 ± 0.5)."
    )
    assert said in render_markdown(found)
    assert said in render_text(found)


def test_rows_are_labelled_by_what_they_hold():
    value = stored("CIFAR-100", "Sym. 40 %", "GCE", 0, {"accuracy": 0.5})
    data = {"CIFAR-10": "cifar10, features", "CIFAR-100": "clinc150, embedded texts"}
    text = render_markdown(Reproduction("table1", "mini", (), ABOUT, data, {}, (value,)))
    assert "| CIFAR-10 | Standard |" in text
    assert "| clinc150, embedded texts, in place of CIFAR-100 | Standard |" in text
    assert "| CIFAR-100 |" not in text


def test_the_page_says_whether_the_told_noise_rate_is_the_true_one():
    def text(values):
        trials = (stored("WebVision", "as found", "Co-teaching", 0, values),)
        return render_text(Reproduction("table2", "mini", (), ABOUT, {}, {}, trials))

    assert "told the true noise rate; ours" in text({"top1": 0.5})
    assumed = "told a noise rate of 20%, an assumption, as nobody knows the true one; ours"
    assert assumed in text({"top1": 0.5, "assumed_rate": 0.2})


def test_q_counts_pieces_without_a_level_as_a_half_as_the_authors_do():
    def mean(measure, **values):
        found = result(trial(0, q_spread=0.0, **values))
        return found.estimate(None, "Sym. 40 %", "10 classes", measure)

    assert mean("q", q=0.1, fallback=0.25).mean == pytest.approx(0.1)
    every = mean("q_all", q=0.1, fallback=0.25)
    assert every.mean == pytest.approx(0.75 * 0.1 + 0.25 * 0.5)
    # The standard deviation of 0.1, 0.1, 0.1 and 0.5.
    assert every.spread == pytest.approx(0.4 * 3**0.5 / 4)
    assert mean("q_all", q=None, fallback=1.0).mean == 0.5
    assert mean("q_all", q=None, fallback=None) is None


def test_the_minutes_of_a_recipe_are_those_of_its_stored_trials(results):
    for name, found in results.stored().items():
        scale = load_recipe(name).scale(found.scale)
        # Two jobs on two cores.
        measured = found.seconds / 60 / 2 * scale.seeds / found.seeds
        assert scale.minutes <= max(1.25 * measured, 2), name
        assert name in results.BUSY or 0.8 * measured <= scale.minutes, name


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
        if "the paper says" in row:
            continue
        for entry in filter(None, row.replace("\\*", "*").strip("| ").split(" | ")):
            assert entry.strip() in text


def test_a_star_before_a_dash_does_not_start_emphasis():
    assert markdown_table(["method"], [["*-random"]]).splitlines()[-1] == r"| \*-random |"
