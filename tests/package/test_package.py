"""The package as a whole: its surface, and how light it is."""

import subprocess
import sys

import pytest

import kspr


def test_the_public_surface_is_deliberate():
    assert sorted(kspr.__all__) == [
        "AnnotatorSelector",
        "CleanedClassifier",
        "DoubtSelector",
        "InputError",
        "KnockoffsSPR",
        "KsprError",
        "MissingExtraError",
        "MultiLabelSelector",
        "PaperKnockoffsSPR",
        "ProbabilitySelector",
        "SPR",
        "Selection",
        "SelectionQuality",
        "__version__",
        "held_out_probabilities",
        "noise",
        "selection_quality",
        "selfcheck",
    ]
    for name in kspr.__all__:
        assert getattr(kspr, name) is not None
    with pytest.raises(AttributeError, match="attribute select"):
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


HEAVY = {
    *("torch", "sklearn", "scipy", "pandas", "matplotlib", "starlette", "uvicorn"),
    *("pyarrow", "numpy"),
}


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


def test_the_review_page_starts_without_what_it_does_not_use():
    """Scikit-learn alone takes longer to load than the page may take to start."""
    assert loaded_by("import kspr.review.server").isdisjoint({"torch", "sklearn", "pandas"})
