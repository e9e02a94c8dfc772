"""Passes over partitions give the answer of one machine, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr import KnockoffsSPR
from kspr.errors import InputError
from kspr.selectors import _partitions_fit
from kspr.selectors.cluster_selection import select_on_cluster
from tests.selectors.clusters import HereCluster, assert_same_bits, cut, noisy_data

laws = settings(max_examples=8, deadline=None)
X, y = noisy_data(1200)
CHOICES = {
    "pooled": {},
    "per class": {"cut": "per_class"},
    "two splits": {"n_splits": 2},
    "rows that repeat": {"duplicates": "ignore"},
    "components": {"reduction": 5},
    "all rows are fitted": {"fit_rows": None},
    "exchangeable": {"control": "exchangeable"},
    "exchangeable, per class": {"control": "exchangeable", "cut": "per_class"},
    "exchangeable, without a floor": {"control": "exchangeable", "remove_floor": True},
    "greatest F1": {"level": "f1"},
    "greatest F1, per class": {"level": "f1", "cut": "per_class"},
}


def selector(**choices) -> KnockoffsSPR:
    return KnockoffsSPR(q=0.1, progress=False, **{"fit_rows": 300, **choices})


@pytest.mark.parametrize("choices", CHOICES.values(), ids=CHOICES)
def test_a_cluster_gives_the_answer_of_one_machine(choices):
    here = selector(**choices).fit(X, y).selection_
    found = select_on_cluster(selector(**choices), HereCluster(), cut(X, y, 100, 100, 777))
    assert_same_bits(here, found)


@laws
@given(cuts=st.lists(st.integers(0, 1200), max_size=6))
def test_partitions_have_no_part_in_the_answer(cuts):
    whole = select_on_cluster(selector(), HereCluster(), cut(X, y))
    assert_same_bits(whole, select_on_cluster(selector(), HereCluster(), cut(X, y, *cuts)))


def test_labels_of_texts_and_classes_that_only_one_partition_has():
    order = np.argsort(y, kind="stable")
    names = np.array(["ant", "bee", "cat", "doe"])[y[order]]
    found = select_on_cluster(selector(), HereCluster(), cut(X[order], names, 300, 600, 900))
    assert found.classes.tolist() == ["ant", "bee", "cat", "doe"]
    assert_same_bits(selector().fit(X[order], names).selection_, found)


def test_a_guess_that_was_too_high_costs_a_pass_and_changes_nothing(monkeypatch):
    expected = select_on_cluster(selector(), HereCluster(), cut(X, y, 500))
    join = _partitions_fit.join

    def too_high(*arguments):
        fit, least = join(*arguments)
        return fit, np.full_like(least, 100.0)

    monkeypatch.setattr(_partitions_fit, "join", too_high)
    cluster = HereCluster()
    assert_same_bits(expected, select_on_cluster(selector(), cluster, cut(X, y, 500)))
    assert cluster.calls.count("judge") == 2


def test_groups_stay_in_one_half():
    groups = np.arange(1200) // 3
    partitions = cut(X, y, 400, groups=groups)
    cluster = HereCluster()
    found = select_on_cluster(selector(), cluster, partitions, groups=True)
    assert len(found) == 1200
    # Every pass sees the same halves, so that the rows of a group never judge each other.
    assert "judge" in cluster.calls


def test_exact_copies_share_a_half_and_the_share_of_them_is_known():
    doubled, labels = np.concatenate([X, X[:200]]), np.concatenate([y, y[:200]])
    found = select_on_cluster(selector(), HereCluster(), cut(doubled, labels, 700))
    assert len(found) == 1400
    np.testing.assert_allclose(found.statistic[1200:], found.statistic[:200], atol=1e-6)


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ({"control": "paper"}, "control='paper' needs all rows on one machine"),
        ({"control": "theorem"}, "choose control='transition' or control='exchangeable'"),
        ({"neighbours": 5}, "neighbours=5 needs all rows"),
    ],
)
def test_what_needs_all_rows_in_one_place_is_refused_in_a_sentence(choices, words):
    with pytest.raises(InputError, match=words):
        select_on_cluster(selector(**choices), HereCluster(), cut(X, y, 500))


def test_two_few_classes_or_rows_are_refused_as_on_one_machine():
    with pytest.raises(InputError, match="only one class"):
        select_on_cluster(selector(), HereCluster(), cut(X, np.zeros(1200, dtype=int), 5))
    with pytest.raises(InputError, match="has 1 sample; at least 2"):
        select_on_cluster(
            selector(), HereCluster(), cut(X, np.where(np.arange(1200) == 7, 9, y), 5)
        )
    two = selector(control="exchangeable")
    with pytest.raises(InputError, match="needs at least three classes"):
        select_on_cluster(two, HereCluster(), cut(X, y % 2, 5))
    with pytest.raises(InputError, match="X has 0 rows"):
        select_on_cluster(selector(), HereCluster(), cut(X[:0], y[:0]))
    with pytest.raises(InputError, match="largest absolute value"):
        select_on_cluster(selector(), HereCluster(), cut(X * np.float32(1e20), y, 5))
