"""What the documentation site is made from: names, commands, and code that runs."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kspr
import kspr.train

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REFERENCE = sorted((DOCS / "python").glob("*.md"))
TASKS = [DOCS / "five-minutes.md", *sorted((DOCS / "how-to").glob("*.md"))]
BLOCK = re.compile(r"^(```|~~~)(python|sh)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
PUBLIC = [f"kspr.{name}" for name in kspr.__all__] + [
    f"kspr.train.{name}" for name in kspr.train.__all__
]


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_on_a_page_of_the_python_interface_with_an_example(name):
    text = "".join(page.read_text() for page in REFERENCE)
    assert f"`{name}`" in text
    assert name == "kspr.__version__" or re.search(
        rf"^\.\. auto(class|function|exception|module):: {re.escape(name)}$", text, re.MULTILINE
    )
    examples = "".join(re.findall(r"```pycon\n(.*?)```", text, re.DOTALL))
    docstring = getattr(kspr if name.count(".") == 1 else kspr.train, name.rpartition(".")[2])
    assert name.rpartition(".")[2] in examples or ">>>" in (docstring.__doc__ or "")


@pytest.mark.parametrize("page", REFERENCE, ids=lambda page: page.name)
def test_the_examples_of_the_python_interface_run(page):
    code = "".join(re.findall(r"```pycon\n(.*?)```", page.read_text(), re.DOTALL))
    test = doctest.DocTestParser().get_doctest(code, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert runner.run(test).failed == 0


def test_a_command_page_has_every_option_of_the_command(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    command_pages = pytest.importorskip("command_pages")
    from kspr.cli._app import app

    for name in command_pages.commands():
        page = command_pages.command_page(name)
        assert page.startswith(f"# kspr {name}\n")
        assert "```sh\n" in page or "Example" not in page
        for argument in app[name].assemble_argument_collection():
            for flag in argument.names:
                assert flag.lower() in page.lower() or not argument.parameter.show, (name, flag)


@pytest.mark.slow
@pytest.mark.parametrize("page", TASKS, ids=lambda page: page.name)
def test_a_page_runs_from_top_to_bottom_in_an_empty_folder(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    monkeypatch.setenv("MPLBACKEND", "agg")
    scope: dict = {}
    for _, language, code in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(code, scope)  # noqa: S102 - our own text
        else:
            subprocess.run(["/bin/sh", "-ec", code], check=True)


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_loads_nothing_from_the_network(tmp_path):
    pytest.importorskip("sphinx")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    subprocess.run([*command, str(DOCS), str(tmp_path / "html")], check=True)
    loaded = r"""<(?:script|link|img|iframe)[^>]+(?:src|href)=["'](https?:)?//[^"']+"""
    for page in (tmp_path / "html").rglob("*.html"):
        assert not re.search(loaded, page.read_text()), page
