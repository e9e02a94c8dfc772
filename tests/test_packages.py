"""Optional packages and the machine."""

import sys

import pytest

from kspr._packages import is_installed, machine, require, version, versions
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
