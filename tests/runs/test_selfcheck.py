"""The self-check of a source and of a run is the one of the library, on their features."""

import numpy as np
import pytest

from kspr import SPR, KnockoffsSPR, selfcheck
from kspr.errors import InputError
from kspr.runs.run import load_run
from kspr.runs.selfcheck import check_run, check_source
from kspr.sources.options import AS_FOUND, AS_SHIPPED, ReadOptions

SELECTOR = KnockoffsSPR(q=0.1)


@pytest.fixture
def source(tmp_path, features, names):
    np.savez(tmp_path / "x.npz", X=features, y=names)
    return tmp_path / "x.npz"


def test_a_source_is_checked_by_its_features_and_labels(features, names, source):
    how = {"share": 0.05, "kinds": ["pair"], "repeats": 1, "seed": 0}
    expected = selfcheck(features, names, SELECTOR, **how)
    found = check_source(source, SELECTOR, options=AS_FOUND, settings=AS_SHIPPED, **how)
    assert str(found) == str(expected)


def test_a_run_is_checked_with_the_selector_that_made_it(features, names, source, run_of):
    assert str(check_run(run_of(source))) == str(selfcheck(features, names, SELECTOR))


def test_a_run_that_cannot_be_checked_says_why(features, names, source, run_of):
    plain = SPR().fit(features, names).selection_
    with pytest.raises(InputError, match="was made by SPR, which promises no rate"):
        check_run(run_of(source, made=plain))
    rows = np.arange(0, 60, 2)
    cut = KnockoffsSPR(q=0.2).fit(features, names, checked=(rows, names[rows])).selection_
    with pytest.raises(InputError, match="rests on rows that a person has checked"):
        check_run(run_of(source, made=cut))
    made = run_of(source)
    np.savez(source, X=features[:-1], y=names[:-1])
    with pytest.raises(InputError, match=r"cannot be read now\. 1 row of the run is gone"):
        check_run(made)
    source.unlink()
    with pytest.raises(InputError, match=r"needs the features of .*x.npz, which cannot be read"):
        check_run(load_run(made.folder))


def test_groups_of_the_source_stay_together_in_the_self_check(features, names, tmp_path, run_of):
    """A run remembers the column of its groups, and the check of the run uses it."""
    groups = np.arange(len(names)) // 3
    np.savez(tmp_path / "g.npz", X=features, y=names, patient=groups)
    options, how = ReadOptions(groups="patient"), {"share": 0.1, "kinds": ["pair"], "seed": 0}
    found = check_source(
        *(tmp_path / "g.npz", SELECTOR), options=options, settings=AS_SHIPPED, repeats=1, **how
    )
    assert str(found) == str(selfcheck(features, names, SELECTOR, groups=groups, repeats=1, **how))
    made = run_of(tmp_path / "g.npz", options=options)
    expected = selfcheck(features, names, SELECTOR, groups=groups)
    assert str(check_run(made)) == str(expected)
    assert expected != selfcheck(features, names, SELECTOR)
