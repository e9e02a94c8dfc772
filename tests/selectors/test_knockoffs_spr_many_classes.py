"""Very many classes: the same answer from a transition matrix that is not written out."""

import numpy as np
import pytest

from kspr import KnockoffsSPR, Selection
from kspr.core import transition
from kspr.errors import InputError
from kspr.selectors.selfcheck import selfcheck


@pytest.fixture
def many(monkeypatch):
    """Ten classes count as very many."""
    monkeypatch.setattr(transition, "MANY_CLASSES", 9)


@pytest.mark.parametrize("control", ["transition", "exchangeable"])
@pytest.mark.parametrize("cut", ["pooled", "per_class"])
def test_the_answer_is_that_of_the_written_matrix(digits40, control, cut, monkeypatch):
    model = KnockoffsSPR(q=0.1, control=control, cut=cut)
    written = model.fit(digits40.X, digits40.y).selection_
    monkeypatch.setattr(transition, "MANY_CLASSES", 9)
    wide = model.fit(digits40.X, digits40.y).selection_
    np.testing.assert_array_equal(wide.clean_mask, written.clean_mask)
    np.testing.assert_array_equal(wide.suggested_label, written.suggested_label)
    # Entries of the inverse that are next to nothing are left out where it is not written.
    np.testing.assert_allclose(wide.q_value, written.q_value, rtol=1e-5)
    assert wide.noise.rate == pytest.approx(written.noise.rate)
    assert wide.noise.rate_interval == pytest.approx(written.noise.rate_interval, abs=0.02)
    assert not wide.noise.transition.size


def test_a_selection_without_a_matrix_is_saved_and_shown(digits40, many, tmp_path):
    saved = KnockoffsSPR(q=0.1).fit(digits40.X, digits40.y).selection_
    loaded = Selection.load(saved.save(tmp_path / "digits"))
    assert not (tmp_path / "digits" / "noise.parquet").exists()
    assert not loaded.noise.transition.size
    assert str(loaded.summary()) == str(saved.summary())
    page = loaded.report(tmp_path / "digits.html").read_text(encoding="utf-8")
    assert "There are too many classes to say which is taken for which." in page


def test_the_self_check_refuses_what_it_cannot_flip(digits40, many):
    with pytest.raises(InputError, match="selfcheck covers up to 1,024 classes, got 10"):
        selfcheck(digits40.X, digits40.y, repeats=1)


def test_suggestions_are_right_among_many_classes(monkeypatch):
    """Ten rows for each of 200 classes, a fifth of the labels wrong."""
    monkeypatch.setattr(transition, "MANY_CLASSES", 199)
    rng = np.random.default_rng(0)
    truth = np.arange(2000) % 200
    X = 3 * rng.standard_normal((200, 40))[truth] + rng.standard_normal((2000, 40))
    y = np.where(rng.random(2000) < 0.2, rng.integers(0, 200, 2000), truth)
    selection = KnockoffsSPR(q=0.1).fit(X.astype(np.float32), y).selection_
    clean = selection.clean_mask
    assert np.mean(y[clean] != truth[clean]) < 0.12
    assert clean[y == truth].mean() > 0.9
    assert (selection.suggested_label == truth).mean() > 0.95
