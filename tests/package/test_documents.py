"""What the documents say is true."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readmes_example_runs(capsys):
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    scope: dict = {}
    exec(example.group(1), scope)  # noqa: S102 - our own text
    right = scope["y_clean"] == scope["y_true"][scope["selection"].clean_mask]
    assert right.mean() > 0.95
    assert len(scope["y_clean"]) > 800
    assert "labels kept" in capsys.readouterr().out


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_glossary_names_existing_modules():
    text = (ROOT / "docs" / "glossary.md").read_text()
    for module in set(re.findall(r"`((?:core|selectors)/\w+\.py)`", text)):
        assert (ROOT / "src" / "kspr" / module).exists(), module


def test_every_command_is_documented():
    from kspr.cli._app import app

    page = (ROOT / "docs" / "commands.md").read_text()
    commands = [name for name in app if not name.startswith("-")]
    assert len(commands) >= 8
    for name in commands:
        assert f"| `kspr {name}" in page, name


def test_the_readmes_speed_table_is_the_measured_one(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import readme

    text, results = readme.README.read_text(), json.loads(readme.RESULTS.read_text())
    assert readme.with_table(text, results) == text


def test_the_defaults_page_is_the_measured_one(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import defaults

    page = defaults.PAGE.read_text()
    monkeypatch.setattr(defaults, "PAGE", tmp_path / "page.md")
    defaults.write_page()
    assert (tmp_path / "page.md").read_text() == page


def test_the_error_rate_page_is_the_measured_one(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import fsr
    from _fsr_page import render_page

    assert render_page(fsr.measured(), fsr.cost()) == fsr.PAGE.read_text()


def test_every_figure_of_a_page_is_there_and_made_by_a_script():
    scripts = "".join(path.read_text() for path in (ROOT / "benchmarks").glob("*.py"))
    for page in PAGES:
        for figure in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / figure).exists(), figure
            assert f'"{Path(figure).name}"' in scripts, figure


def test_the_training_page_is_the_measured_one(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import train_head

    page = train_head.PAGE.read_text()
    monkeypatch.setattr(train_head, "PAGE", tmp_path / "page.md")
    train_head.write_page()
    assert (tmp_path / "page.md").read_text() == page
