"""Optional packages and the machine."""

import subprocess
import sys

import pytest

from kspr import _packages
from kspr._packages import is_installed, machine, require, source_commit, version, versions
from kspr.errors import MissingExtraError


def test_a_package_that_is_there_is_returned():
    assert require("json", "Reading", "json") is sys.modules["json"]


def test_a_missing_package_is_named_with_its_pip_command():
    with pytest.raises(MissingExtraError, match="Drawing needs x-draw: run `pip install x-draw`"):
        require("no_such_module", "Drawing", "x-draw")


def test_a_package_that_lacks_another_names_that_one(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(MissingExtraError, match="not_there_at_all"):
        require("half_there", "Drawing", "half-there")


def test_a_package_is_looked_for_without_importing_it(monkeypatch):
    assert is_installed("antigravity")
    assert "antigravity" not in sys.modules
    assert not is_installed("no_such_module")
    monkeypatch.setitem(sys.modules, "json", None)
    assert not is_installed("json")


def test_versions_are_those_installed():
    import numpy as np

    assert version("numpy") == np.__version__
    assert version("no-such-package") is None
    assert versions("numpy", "no-such-package")["no-such-package"] is None


def test_a_machine_is_described():
    found = machine("numpy")
    assert set(found) == {"cpu", "cores", "system", "versions"}
    assert found["cpu"]
    assert found["cores"] >= 1


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git checkout in whose folder ``src/kspr`` this package seems to lie."""

    def git(*command):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        given = ["git", "-C", tmp_path, *who, *command]
        subprocess.run(given, check=True, capture_output=True)

    (tmp_path / "src" / "kspr").mkdir(parents=True)
    (tmp_path / "src" / "kspr" / "code.py").write_text("x = 1\n")
    git("init")
    git("add", ".")
    git("commit", "-m", "first")
    monkeypatch.setattr(_packages, "__file__", str(tmp_path / "src" / "kspr" / "code.py"))
    source_commit.cache_clear()
    yield git
    source_commit.cache_clear()


def test_the_commit_is_the_last_one_that_changed_the_sources(checkout, tmp_path):
    first = source_commit()
    assert len(first) == 12
    (tmp_path / "page.md").write_text("text\n")
    checkout("add", ".")
    checkout("commit", "-m", "a page")
    source_commit.cache_clear()
    assert source_commit() == first
    (tmp_path / "src" / "kspr" / "code.py").write_text("x = 2\n")
    source_commit.cache_clear()
    assert source_commit() == f"{first}-changed"


def test_an_installed_package_has_no_commit_and_asks_nobody(checkout, tmp_path, monkeypatch):
    """Also within the checkout of another project, whose settings could start programs."""
    place = tmp_path / ".venv" / "site-packages" / "kspr" / "code.py"
    monkeypatch.setattr(_packages, "__file__", str(place))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a program was started"))
    assert source_commit() is None


def test_without_git_there_is_no_commit(checkout, monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert source_commit() is None
