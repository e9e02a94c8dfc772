"""Rows ordered by anybody's score of doubt."""

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest

from kspr import DoubtSelector, InputError, Selection

N = 3000


def scores(seed=0, slope=1.0):
    """Return a quality of rows, and which of them are wrong: the poorer, the more often."""
    rng = np.random.default_rng(seed)
    quality = rng.random(N)
    return quality, rng.random(N) < slope * (1 - quality) ** 2


def answers_to(wrong):
    return np.where(wrong, "wrong", "right")


def test_a_doubt_alone_keeps_nothing_and_states_no_rate():
    quality, _ = scores()
    selection = DoubtSelector(doubtful="low").fit(quality).selection_
    assert not selection.clean_mask.any()
    assert selection.assumption is None
    words = str(selection.summary())
    assert "0 of 3,000 labels kept (0.0%)\n" in words
    assert "A doubt alone has no" in words
    for ask in (selection.curve, lambda: selection.at(0.1)):
        with pytest.raises(InputError, match="DoubtSelector does not have before rows are checked"):
            ask()


def test_the_most_doubtful_row_is_the_first_suspect():
    quality, _ = scores()
    low = DoubtSelector(doubtful="low").fit(quality).selection_
    high = DoubtSelector().fit(quality).selection_
    assert low.suspect_indices[0] == quality.argmin()
    assert high.suspect_indices[0] == quality.argmax()


def test_the_mean_rate_of_kept_rows_is_within_q():
    """Over 300 draws of 100 checks the mean FSR is below q + 3 standard errors."""
    quality, wrong = scores()
    fitted = DoubtSelector(q=0.1, doubtful="low").fit(quality).selection_
    found, kept = [], []
    for seed in range(300):
        rows = fitted.draw_checks(100, seed=seed)
        clean = fitted.with_checks(rows, answers_to(wrong[rows]), seed=seed).clean_mask
        found.append(wrong[clean].mean() if clean.any() else 0.0)
        kept.append(clean.mean())
    assert np.mean(found) < 0.1 + 3 * np.std(found) / np.sqrt(300)
    assert np.mean(kept) > 0.4


def test_only_the_order_of_the_doubt_counts():
    quality, wrong = scores()
    masks = []
    for doubt, doubtful in ((quality, "low"), (-1e6 * quality**3, "high")):
        fitted = DoubtSelector(q=0.1, doubtful=doubtful).fit(doubt).selection_
        rows = fitted.draw_checks(80)
        masks.append(fitted.with_checks(rows, answers_to(wrong[rows])).clean_mask)
    assert np.array_equal(*masks)


def test_two_doubts_that_see_different_rows_keep_more_than_either():
    rng = np.random.default_rng(0)
    hard = rng.random((N, 2))
    wrong = hard.sum(axis=1) + 0.2 * rng.normal(size=N) > 1.4
    kept = []
    # In other units, which must not weigh.
    hard[:, 1] *= 1000
    for doubt in (hard[:, 0], hard[:, 1], hard):
        fitted = DoubtSelector(q=0.1).fit(doubt).selection_
        rows = fitted.draw_checks(200)
        clean = fitted.with_checks(rows, answers_to(wrong[rows])).clean_mask
        kept.append((clean & ~wrong).sum())
    assert kept[2] > max(kept[:2])


def sets(kind, seed):
    """Return scores, features or None, and which rows are wrong."""
    rng = np.random.default_rng(seed)
    if kind == "one of three tells":
        shown = rng.random((N, 3))
        return shown, None, rng.random(N) < 0.8 * shown[:, 0] ** 3
    if kind == "a feature tells":
        shown, X = rng.random((N, 1)), rng.normal(size=(N, 20))
        return shown, X, shown[:, 0] + 0.5 * X[:, 0] + 0.2 * rng.normal(size=N) > 1.1
    shown = rng.random((N, 2))
    wrong = shown.sum(axis=1) + 0.2 * rng.normal(size=N) > 1.4
    return shown * [1, -1], None, wrong  # the second score is a quality


@pytest.mark.parametrize(
    ("kind", "least"),
    [("one of three tells", 0.75), ("a feature tells", 0.85), ("one is low", 0.9)],
)
def test_first_answers_join_scores_and_features_and_later_ones_hold_the_rate(kind, least):
    """Over 60 draws of 50 first and 100 later checks the mean FSR is below q + 3 std. errors."""
    found, kept = [], []
    for seed in range(60):
        shown, X, wrong = sets(kind, seed)
        first = np.random.default_rng(seed).choice(N, 50, replace=False)
        given = first, answers_to(wrong[first])
        fitted = DoubtSelector(q=0.1).fit(shown, features=X, checked=given).selection_
        assert np.flatnonzero(fitted.clean_mask).tolist() == sorted(first[~wrong[first]])
        rows = fitted.draw_checks(100, seed=seed)
        assert not np.isin(rows, first).any()
        clean = fitted.with_checks(rows, answers_to(wrong[rows]), seed=seed).clean_mask
        found.append(wrong[clean].mean())
        kept.append((clean & ~wrong).sum() / (~wrong).sum())
    assert np.mean(found) < 0.1 + 3 * np.std(found) / np.sqrt(60)
    assert np.mean(kept) > least


def test_the_same_answers_for_all_rows_leave_the_mean_place():
    quality, _ = scores()
    fitted = DoubtSelector(doubtful="low").fit(quality, checked=([5, 7], ["right"] * 2)).selection_
    assert fitted.suspect_indices[0] == quality.argmin()
    assert fitted.clean_indices.tolist() == [5, 7]


def test_groups_are_drawn_whole_and_the_rate_of_rows_holds():
    """Over 200 draws the mean FSR is below q + 3 standard errors, for labels that err together."""
    rng = np.random.default_rng(0)
    image = np.sort(rng.integers(0, 400, N))
    poor = rng.random(400)
    doubt = poor[image] + 0.3 * rng.random(N)
    # Of a poor image all labels are wrong, or none.
    wrong = (rng.random(400) < poor**2)[image]
    fitted = DoubtSelector(q=0.1).fit(doubt).selection_
    found = []
    for seed in range(200):
        rows = fitted.draw_checks(40, seed=seed, groups=image)
        assert (rows[:40] == fitted.draw_checks(40, seed=seed)).all()
        assert set(rows) == set(np.flatnonzero(np.isin(image, image[rows[:40]])))
        drawn, rest = rows[:40], rows[40:]
        checked = fitted.with_checks(drawn, answers_to(wrong[drawn]), seed=seed)
        clean = checked.with_checks(rest, answers_to(wrong[rest]), drawn="chosen").clean_mask
        assert not (clean & wrong)[rows].any()
        found.append(wrong[clean].mean())
    assert np.mean(found) < 0.1 + 3 * np.std(found) / np.sqrt(200)


def test_with_classes_an_answer_is_the_true_label():
    quality, wrong = scores()
    y_true = np.random.default_rng(1).choice(["cat", "dog", "owl"], N)
    y = np.where(wrong, "dog", y_true)
    wrong = y != y_true
    fitted = DoubtSelector(q=0.1, doubtful="low").fit(quality, y).selection_
    assert fitted.classes.tolist() == ["cat", "dog", "owl"]
    rows = fitted.draw_checks(100)
    checked = fitted.with_checks(rows, y_true[rows])
    assert not checked.clean_mask[rows[wrong[rows]]].any()
    assert (checked.suggested_label[rows] == y_true[rows]).all()
    assert {row.label for row in checked.estimates().per_class} == {"cat", "dog", "owl"}


@pytest.mark.parametrize("checks", [0, 100])
def test_a_saved_selection_is_the_same_again(tmp_path, checks):
    quality, wrong = scores()
    selection = DoubtSelector(q=0.1, doubtful="low").fit(quality).selection_
    if checks:
        rows = selection.draw_checks(checks)
        selection = selection.with_checks(rows, [*answers_to(wrong[rows[:-1]]), None])
    loaded = Selection.load(selection.save(tmp_path / "run"))
    assert np.array_equal(loaded.clean_mask, selection.clean_mask)
    assert np.array_equal(loaded.doubt, selection.doubt)
    assert str(loaded.summary()) == str(selection.summary())


@pytest.mark.parametrize(
    ("doubt", "y", "message"),
    [
        ([0.1, np.nan, 0.3], None, "no finite number in row 1"),
        (["a", "b"], None, "one number per row"),
        (np.zeros((3, 2, 2)), None, r"one number per row, got float64 of shape \(3, 2, 2\)"),
        ([[0.1, 0.2], [np.inf, 0.3]], None, "no finite number in row 1"),
        ([], None, "one number per row"),
        ([0.1, 0.2], ["a"], "doubt has 2 rows but y has 1 labels"),
    ],
)
def test_what_is_no_doubt_is_refused(doubt, y, message):
    with pytest.raises(InputError, match=message):
        DoubtSelector().fit(doubt, y)


def test_features_need_answers_and_as_many_rows():
    quality, wrong = scores()
    first = [0, 1], answers_to(wrong[:2])
    for more, message in (
        ({"features": quality[:, None]}, "pass checked="),
        ({"features": np.ones((5, 2)), "checked": first}, "doubt has 3000 rows but features has 5"),
    ):
        with pytest.raises(InputError, match=message):
            DoubtSelector().fit(quality, **more)
    with pytest.raises(InputError, match="groups must hold one entry for each of the 3,000 rows"):
        DoubtSelector().fit(quality).selection_.draw_checks(9, groups=[1, 2])


def test_a_direction_that_is_unknown_is_refused():
    with pytest.raises(InputError, match="doubtful must be one of 'high', 'low'"):
        DoubtSelector(doubtful="worse").fit([0.1, 0.2])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers", "tags", "words", "masks", "boxes"])
def test_the_mean_rate_is_within_q_for_every_kind_of_label_of_the_page(page, kind):
    """Over 200 draws of 100 checks the mean FSR is below q + 3 standard errors."""
    quality, wrong = map(np.asarray, page[kind])
    fitted = DoubtSelector(q=0.1, doubtful="low").fit(quality).selection_
    found = []
    for seed in range(200):
        rows = fitted.draw_checks(100, seed=seed)
        clean = fitted.with_checks(rows, answers_to(wrong[rows]), seed=seed).clean_mask
        found.append(wrong[clean].mean() if clean.any() else 0.0)
    assert np.mean(found) < 0.1 + 3 * np.std(found) / np.sqrt(200)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """What the Python blocks of docs/how-to/any-label.md leave, up to those that need commands."""
    pytest.importorskip("cleanlab")
    text = (Path(__file__).parents[2] / "docs" / "how-to" / "any-label.md").read_text()
    text = text.partition("## From a table")[0]
    scope: dict = {}
    with contextlib.chdir(tmp_path_factory.mktemp("page")):
        for code in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            exec(code, scope)  # noqa: S102 - our own text
    return scope
