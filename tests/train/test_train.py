"""What `kspr.train` offers, and how light it is to name it."""

import pytest

import kspr.train
from tests.package.test_package import loaded_by


def test_the_public_surface_is_deliberate():
    assert kspr.train.__all__ == [
        "CleanSampler",
        "FeatureStore",
        "SelectionCallback",
        "TrainSettings",
        "Trained",
        "fit",
        "load_trained",
    ]
    for name in kspr.train.__all__:
        assert getattr(kspr.train, name).__doc__
    with pytest.raises(AttributeError, match="no attribute 'train'"):
        kspr.train.train  # noqa: B018 - the look-up is the point


def test_naming_it_loads_no_torch():
    assert "torch" not in loaded_by("import kspr.train\ndir(kspr.train)")


def test_evaluating_a_run_loads_no_torch():
    assert "torch" not in loaded_by("import kspr.train.run_folder, kspr.runs.evaluate")
