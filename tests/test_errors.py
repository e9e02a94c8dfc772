"""The tree of errors: what a caller can catch."""

import importlib.metadata

import pytest

from kspr.errors import InputError, KsprError, MissingExtraError, UnreadableItemError


@pytest.mark.parametrize(
    ("error", "bases"),
    [
        (InputError, (KsprError, ValueError)),
        (UnreadableItemError, (InputError,)),
        (MissingExtraError, (KsprError, ImportError)),
    ],
)
def test_an_error_is_caught_by_our_base_and_by_pythons(error, bases):
    assert all(issubclass(error, base) for base in bases)


def test_a_missing_package_is_one_sentence_with_the_command():
    assert str(MissingExtraError("The report", "jinja2")) == (
        "The report needs jinja2: run `pip install jinja2`."
    )


def test_an_extra_of_a_checkout_is_installed_from_there(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text("")
    monkeypatch.setattr("kspr.errors.__file__", str(tmp_path / "src" / "kspr" / "errors.py"))
    said = str(MissingExtraError("Training", "'knockoffs-spr[train]'"))
    assert said.endswith(f"run `pip install -e '{tmp_path.resolve()}[train]'`.")


def test_an_extra_of_an_installed_package_is_named_by_what_it_holds(tmp_path, monkeypatch):
    """No index has this package yet: the command must not ask for it by its name."""
    monkeypatch.setattr("kspr.errors.__file__", str(tmp_path / "site" / "kspr" / "errors.py"))
    listed = ["numpy>=2", "jinja2>=3.1; extra == 'report'", "torch>=2.6; extra == 'train'"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: listed)
    said = str(MissingExtraError("Training", "'knockoffs-spr[train]'"))
    assert said.endswith("run `pip install 'torch>=2.6'`.")


def test_a_name_of_any_length_leaves_a_sentence_with_its_beginning_and_end():
    message = str(InputError(f"x.csv has no column {'n' * 100_000!r}. Write it again."))
    assert len(message) <= 900
    assert message.startswith("x.csv has no column 'nnn")
    assert message.endswith("nnn'. Write it again.")
