"""What the documents say is true."""

import importlib
import json
import re
import statistics
from pathlib import Path

import pytest
from tests.package.notebook import outputs
from tests.package.prose import prose_lines, too_long

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ("*.md", "how-to/*.md", "python/*.md")
"""Where pages are in docs/; the folders commands/ and gallery/ are made by `make docs`."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted(page for where in WRITTEN for page in (ROOT / "docs").glob(where)),
]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_notebook_shows_what_its_cells_give():
    notebook = json.loads((ROOT / "examples" / "notebook.ipynb").read_text(encoding="utf-8"))
    stored = [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]

    def words(cells):
        # Pictures differ with the version of Matplotlib.
        return [
            [(each.get("text"), {**each.get("data", {}), "image/png": None}) for each in cell]
            for cell in cells
        ]

    assert words(outputs(notebook)) == words(stored)
    assert sum("image/png" in each.get("data", {}) for cell in stored for each in cell) == 2


def test_the_readmes_example_runs(capsys):
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict = {}
    exec(example.group(1), scope)  # noqa: S102 - our own text
    right = scope["y_clean"] == scope["y_true"][scope["selection"].clean_mask]
    # One draw: the mean of many stays within q.
    assert right.mean() > 0.95 - 2 * (0.05 * 0.95 / len(right)) ** 0.5
    assert len(right) > 800
    assert "labels kept" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("README.md", ("CIFAR-10N", "confused")),
        ("docs/what-q-means.md", ("CIFAR-10N", "confused")),
        ("docs/how-to/texts.md", ("confused",)),
        ("docs/error-rate.md", ("CIFAR-10N", "confused")),
    ],
)
def test_what_people_s_labels_give_is_the_measured_rate(page, words, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import fsr
    from _fsr_page import range_on_people

    text = " ".join((ROOT / page).read_text().split())
    trials = fsr.TRIALS.trials()
    assert [word for word in words if range_on_people(trials, word) not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        where = (page.parent / target).resolve()
        if where.parent == ROOT / "docs" / "gallery":
            # `make docs` writes the gallery from examples/.
            where = ROOT / "examples" / ("README.txt" if target.endswith("index") else where.name)
            where = where if where.suffix else where.with_suffix(".py")
        assert where.exists(), target


def test_the_glossary_names_existing_modules():
    text = (ROOT / "docs" / "glossary.md").read_text()
    for module in set(re.findall(r"`((?:core|selectors|train)/[\w/]+\.py)`", text)):
        assert (ROOT / "src" / "kspr" / module).exists(), module


def test_every_command_is_documented():
    from kspr.cli._app import app

    page = (ROOT / "docs" / "commands.md").read_text()
    commands = [name for name in app if not name.startswith("-")]
    assert len(commands) >= 8
    for name in commands:
        assert f"| `kspr {name}" in page, name


def test_a_measured_part_of_a_page_is_the_measured_one(monkeypatch):
    pytest.importorskip("playwright")
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    stale = importlib.import_module("stale")
    stale.import_all()
    assert len(stale.BENCHES) >= 18
    for bench in filter(lambda bench: bench.trials(), stale.BENCHES):
        text = bench.page.read_text()
        assert bench.filled(text) == text, (bench.command, bench.page)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").glob("*.md")), ids=name_of)
def test_no_table_is_empty(page):
    """Stored results that no longer match the code's names leave dashes behind."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        rows = table.splitlines()[2:]
        assert not rows or any(re.search(r"\|\s*[^-|\s]", row[row.find("|", 1) :]) for row in rows)


def test_the_rate_on_peoples_labels_in_every_summary_is_the_measured_one(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import fsr
    from kspr.selectors import verdict

    found: dict[tuple[str, str], list[float]] = {}
    for record in fsr.TRIALS.trials():
        if (record["group"], record["method"]) == ("people", "default"):
            case = record["data"], record["noise"]
            found.setdefault(case, []).append(record["at"]["0.05"]["fsr"])
    means = [100 * statistics.fmean(values) for values in found.values()]
    assert f"{min(means):.0f} to {max(means):.0f} % of the kept labels" in verdict._UNCHECKED


def test_the_rate_by_a_model_of_ones_own_in_every_summary_is_the_measured_one(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import probabilities
    from kspr.selectors import verdict

    rates = [
        100 * trial["methods"]["kspr, q = 0.05"]["fsr"]
        for trial in probabilities.TRIALS.trials()
        if trial["group"] == "people" and "banking" not in trial["data"]
    ]
    assert len(rates) >= 13
    words = f"{min(rates):.0f} to {max(rates):.0f} % of the kept labels were wrong"
    assert words in verdict._UNCHECKED_MODEL


def test_the_rate_of_a_consensus_in_every_summary_is_the_measured_one(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import crowd
    from kspr.selectors import verdict

    found: dict[tuple[str, str], list[float]] = {}
    for trial in crowd.TRIALS.trials():
        if "independently" not in trial["noise"]:
            rate = trial["methods"]["AnnotatorSelector"]["at"]["0.02"][0]
            found.setdefault((trial["data"], trial["noise"]), []).append(rate)
    means = [100 * statistics.fmean(values) for values in found.values()]
    assert len(means) == 4
    words = f"{min(means):.0f} to {max(means):.0f} % of the kept labels were wrong"
    assert words in verdict._UNCHECKED_CROWD


def test_the_readmes_three_numbers_are_the_measured_ones(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import fsr

    text = (ROOT / "README.md").read_text()
    means = []
    for noise in ("Sym. 20%", "Sym. 40%", "Sym. 60%"):
        wanted = ("CIFAR-10", noise, "default")
        means.append(
            statistics.fmean(
                record["at"]["0.05"]["fsr"]
                for record in fsr.TRIALS.trials()
                if (record["data"], record["noise"], record["method"]) == wanted
            )
        )
    assert f"| {100 * min(means):.1f} to {100 * max(means):.1f} % | `make fsr`" in text
    seconds = statistics.median(fsr.COST.trials()[0]["seconds"]["default"])
    assert f"| {seconds:.2f} s | `make fsr`" in text
    rows = (ROOT / "benchmarks" / "results" / "speed.jsonl").read_text().splitlines()
    checks = [check for row in map(json.loads, rows) for check in row["checks"]]
    share = next(c["value"] for c in checks if c["what"] == "share of cleanlab's time")
    assert f"| {1 / share:.1f} times as fast | `make bench`" in text


def test_the_readme_is_short_and_begins_with_what_a_newcomer_needs():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 100
    first = "\n".join(lines[:40])
    needed = ("make demo", "make test", "pip install", "<picture>", "```python")
    assert [word for word in needed if word not in first] == []


def test_a_screenshot_is_small_and_has_a_dark_and_a_light_form():
    figures = ROOT / "docs" / "figures"
    light = sorted(figures.glob("*-light.webp"))
    assert len(light) == 2
    for path in light:
        dark = path.with_name(path.name.replace("light", "dark"))
        assert max(path.stat().st_size, dark.stat().st_size) < 150_000


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_prose_is_no_wider_than_a_hundred_columns(page):
    assert too_long(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_line_starts_with_a_percent_sign(page):
    """Sphinx takes such a line for a comment, and the sentence loses a part."""
    assert [line for _, line in prose_lines(page.read_text()) if line.lstrip()[:1] == "%"] == []


def test_every_figure_of_a_page_is_there_and_made_by_a_script():
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    forms = r'!\[[^]]*\]\(([^)]+)\)|(?:src|srcset)="(?!https:)([^"]+)"|\{image\} (\S+)'
    for page in PAGES:
        for figure in map("".join, re.findall(forms, page.read_text())):
            assert (page.parent / figure).exists(), figure
            assert f'"{Path(figure).name}"' in scripts, figure


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("kspr-f1", r"has the best F1 in (\d) of (\d) noises"),
        ("kspr", r"the default at q = 0\.1 is ahead of\s+every peer in (\d) of (\d)"),
    ],
)
def test_the_readmes_count_of_best_f1s_is_the_measured_one(method, words, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    from peers import OURS, stored_peers

    cases = [case for case in stored_peers() if case["data"] == "CIFAR-10"]
    ahead = 0
    for case in cases:
        f1 = {trial["method"]: trial["f1"] for trial in case["trials"] if not trial["told"]}
        peers = set(f1) - {*OURS, "no cleaning", "oracle"}
        assert len(peers) >= 8
        ahead += f1[method] > max(f1[name] for name in peers)
    claimed = re.search(words, (ROOT / "README.md").read_text())
    assert claimed.groups() == (str(ahead), str(len(cases)))
