"""Stored results are kept while what computed them is the same, and no longer."""

from pathlib import Path

import pytest

from kspr.experiments.fingerprint import code_digest, fingerprint

ENTRY = "kspr.trial"
FILES = {
    "trial.py": "from kspr.maths import double\n\ndef run(x):\n    return double(x)\n",
    "maths.py": '"""Maths."""\n\ndef double(x):\n    return 2 * x\n',
    "other.py": "def unused():\n    return 1\n",
    "__init__.py": "",
}


def digest(folder: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return code_digest(ENTRY, root=folder)


@pytest.fixture
def before(tmp_path):
    return digest(tmp_path / "before", FILES)


def test_comments_docstrings_and_layout_do_not_count(before, tmp_path):
    changed = (
        '"""Other words."""\n\n# why\ndef double(x):\n    """Return it."""\n    return (2 *  x)\n'
    )
    assert digest(tmp_path / "after", {**FILES, "maths.py": changed}) == before


def test_a_module_that_is_not_imported_does_not_count(before, tmp_path):
    assert digest(tmp_path / "after", {**FILES, "other.py": "x = 2\n"}) == before


def test_a_definition_that_moves_to_another_module_is_the_same(before, tmp_path):
    moved = {
        "trial.py": FILES["trial.py"].replace("kspr.maths", "kspr.room.deep"),
        "room/__init__.py": "",
        "room/deep.py": FILES["maths.py"],
    }
    assert digest(tmp_path / "after", {"__init__.py": "", **moved}) == before
    merged = {"trial.py": FILES["maths.py"] + FILES["trial.py"].split("\n", 2)[2]}
    assert digest(tmp_path / "merged", {"__init__.py": "", **merged}) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"maths.py": "def double(x):\n    return 2.0 * x\n"},
        {"maths.py": "def double(x):\n    return 2 + x\n"},
        {"trial.py": FILES["trial.py"].replace("double(x)", "double(-x)")},
        {"maths.py": FILES["maths.py"] + "\nSCALE = 3\n"},
        {"trial.py": FILES["trial.py"].replace("import double", "import triple as double")},
    ],
)
def test_what_computes_counts(before, tmp_path, changes):
    assert digest(tmp_path / "after", {**FILES, **changes}) != before


def test_modules_imported_inside_functions_or_by_name_count(tmp_path):
    for text in (
        "def run(x):\n    from kspr.maths import double\n    return double(x)\n",
        'def run(x):\n    return import_module("kspr.maths").double(x)\n',
    ):
        files = {**FILES, "trial.py": text}
        first = digest(tmp_path / f"{len(text)}a", files)
        changed = digest(tmp_path / f"{len(text)}b", {**files, "maths.py": "double = abs\n"})
        assert first != changed


def test_imports_for_annotations_only_do_not_count(tmp_path):
    head = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from kspr.maths import x\n"
    files = {**FILES, "trial.py": head}
    first = digest(tmp_path / "a", files)
    assert digest(tmp_path / "b", {**files, "maths.py": "x = 3\n"}) == first


def test_a_fingerprint_tells_contents_apart():
    names = {fingerprint({"seed": seed}, "kspr.core.metrics") for seed in range(3)}
    assert len(names) == 3
    assert fingerprint({"seed": 0}, "kspr.core.penalties") not in names


def test_a_module_that_is_not_there_is_refused():
    with pytest.raises(ModuleNotFoundError, match=r"kspr\.nowhere"):
        code_digest("kspr.nowhere")


def test_code_that_is_not_run_may_be_left_out():
    whole = code_digest("kspr.selectors.spr")
    assert code_digest("kspr.selectors.spr", without=("kspr.core",)) != whole
    # The end of a name is no package.
    assert code_digest("kspr.selectors.spr", without=("kspr.cor",)) == whole
