"""The paper's controls: Eq. T, Theorem 2's factor, and the fallback."""

import numpy as np
import pytest

from kspr import InputError, KnockoffsSPR, Selection


@pytest.fixture(scope="module")
def selection(digits40) -> Selection:
    names = np.array([f"digit {k}" for k in range(10)])
    return KnockoffsSPR(q=0.05).fit(digits40.X, names[digits40.y]).selection_


def test_the_papers_rule_raises_the_level_and_marks_its_fallback():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 5)), rng.integers(0, 3, 300)
    selection = KnockoffsSPR.paper().fit(X, y).selection_
    status, cut_groups = selection.cut_groups.status, selection.cut_groups
    assert set(status) <= {"raised", "fallback"}
    assert "fallback" in status
    fallen = status == "fallback"
    assert np.isnan(cut_groups.q_reached[fallen]).all()
    assert np.array_equal(cut_groups.n_kept[fallen], (cut_groups.n[fallen] + 1) // 2)
    assert (cut_groups.q_reached[~fallen] >= cut_groups.estimated_fsr[~fallen]).all()
    assert "best half was kept" in str(selection.summary())


def test_the_theorems_bound_is_stricter(digits40):
    plain, strict, milder = (
        KnockoffsSPR(q=0.2, cut="per_class", **choice).fit(digits40.X, digits40.y).selection_
        for choice in (
            {"control": "paper"},
            {"control": "theorem"},
            {"control": "theorem", "kappa": 0.5},
        )
    )
    assert np.allclose(strict.q_value, plain.q_value / (8 / 20))
    assert np.allclose(milder.q_value, plain.q_value / 0.5)
    assert strict.clean_mask.sum() < milder.clean_mask.sum() < plain.clean_mask.sum()


def test_of_two_classes_the_theorem_and_exchange_say_what_they_do_not_cover(blobs):
    two = blobs.y < 2
    X, y = blobs.X[two], blobs.y[two]
    with pytest.raises(InputError, match=r"covers two classes only with kappa"):
        KnockoffsSPR(control="theorem").fit(X, y)
    KnockoffsSPR(q=0.1, control="theorem", kappa=0.5).fit(X, y)
    with pytest.raises(InputError, match=r"needs at least three classes, got 2") as caught:
        KnockoffsSPR(control="exchangeable").fit(X, y)
    assert "\n" not in str(caught.value)
