"""The package as a whole: its surface, its layers, and how light it is."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import kspr

SOURCE = Path(kspr.__file__).parent
LAYERS = ["core", "selectors", "data", "train", "experiments", "report", "review", "cli"]
"""Bottom up; a module may import from its own layer and those before it."""
FOUNDATION = {"errors", "_files", "_progress"}
"""Modules that any layer may use; they use none themselves."""


def imported_parts(module: Path) -> set[str]:
    """Return the parts of kspr that a module imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
            if node.module == "kspr":
                names = [f"kspr.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        found |= {name.split(".")[1] for name in names if name.startswith("kspr.")}
    return found


@pytest.mark.parametrize("module", sorted(SOURCE.rglob("*.py")), ids=str)
def test_imports_point_down_only(module):
    part = module.relative_to(SOURCE).parts[0].removesuffix(".py")
    if part in {"__init__", "__main__"}:
        return
    if part in FOUNDATION:
        assert imported_parts(module) == set()
        return
    allowed = set(LAYERS[: LAYERS.index(part) + 1]) | FOUNDATION
    assert imported_parts(module) <= allowed


def test_every_folder_is_a_layer():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(LAYERS)


def test_the_public_surface_is_deliberate():
    assert sorted(kspr.__all__) == [
        "InputError",
        "KnockoffsSPR",
        "KsprError",
        "MissingExtraError",
        "SPR",
        "Selection",
        "SelectionQuality",
        "__version__",
        "selection_quality",
        "selfcheck",
    ]
    for name in kspr.__all__:
        assert getattr(kspr, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'select'"):
        kspr.select  # noqa: B018 - the look-up is the point


@pytest.mark.parametrize("name", [n for n in kspr.__all__ if n != "__version__"])
def test_every_public_name_is_documented(name):
    assert getattr(kspr, name).__doc__


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that a fresh interpreter has after running `code`."""
    script = (
        f"import sys\n{code}\nprint(' '.join(sorted({{m.split('.')[0] for m in sys.modules}})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


HEAVY = {"torch", "sklearn", "scipy", "pandas", "matplotlib", "fastapi", "pyarrow", "numpy"}


def test_importing_the_package_is_light():
    assert loaded_by("import kspr").isdisjoint(HEAVY)


def test_help_is_light():
    code = "from kspr.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass"
    assert loaded_by(code).isdisjoint(HEAVY)


def test_selecting_does_not_load_torch():
    code = (
        "import kspr, numpy as np\n"
        "X = np.random.default_rng(0).standard_normal((40, 3))\n"
        "kspr.KnockoffsSPR().fit(X, np.arange(40) % 2)"
    )
    assert loaded_by(code).isdisjoint({"torch", "polars", "matplotlib"})
