"""Data that cannot work says so in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone

from kspr import SPR, InputError, KnockoffsSPR, PaperKnockoffsSPR
from kspr.selectors.validation import check_types
from tests.selectors.simulated import by_control

X = np.random.default_rng(0).standard_normal((60, 4))
Y = np.repeat([0, 1, 2], 20)


def with_value(value, *rows):
    changed = X.copy()
    changed[list(rows), 1] = value
    return changed


def with_label(value, row):
    changed = Y.astype(object)
    changed[row] = value
    return changed


CASES = {
    "rows": (X, Y[:58], {}, "X has 60 rows but y has 58 labels."),
    "nan": (with_value(np.nan, 3, 17), Y, {}, "X holds NaN or inf in rows 3, 17."),
    "inf": (with_value(np.inf, 5), Y, {}, "X holds NaN or inf in row 5."),
    "many": (with_value(np.nan, *range(9)), Y, {}, "rows 0, 1, 2, 3, 4 and 4 more."),
    "half": (with_value(np.inf, 5).astype(np.float16), Y, {}, "X holds NaN or inf in row 5."),
    "sparse": (sp.csr_matrix(with_value(np.nan, 8)), Y, {}, "X holds NaN or inf in row 8."),
    "tensor": (torch.tensor(with_value(np.nan, 8)), Y, {}, "X holds NaN or inf in row 8."),
    "flat tensor": (torch.tensor(X[:, 0]), Y, {}, "X must have two dimensions"),
    "huge": (1e200 * X, Y, {}, "X must have a largest absolute value between"),
    "huge single": ((1e36 * X).astype(np.float32), Y, {}, "X must have a largest absolute value"),
    "huge tensor": (torch.tensor(1e200 * X), Y, {}, "Multiply X by a constant."),
    "huge sparse": (sp.csr_matrix(1e200 * X), Y, {}, "Multiply X by a constant."),
    "tiny": (1e-200 * X, Y, {}, "its squares would be infinite or zero."),
    "one class": (X, np.zeros(60), {}, "y has only one class (0.0)"),
    "small class": (
        X,
        np.where(np.arange(60) == 9, "otter", "cat"),
        {},
        "Class 'otter' has 1 sample; at least 2 are needed.",
    ),
    "distinct": (X, np.arange(60), {}, "(59 more classes are too small)"),
    "2d labels": (X, np.zeros((60, 3)), {}, "y should be a 1d array"),
    "missing label": (X, with_label(None, 4), {}, "y has no label (NaN or inf, or None) in row 4."),
    "nan label": (X, np.where(np.arange(60) == 2, np.nan, Y), {}, "in row 2."),
    "mixed labels": (X, with_label("a", 4), {}, "y mixes types"),
    "q high": (X, Y, {"q": 1.5}, "q must lie in (0, 1), got 1.5. q is a rate: write 0.05 for 5 %."),
    "q zero": (X, Y, {"q": 0}, "q must lie in (0, 1), got 0."),
    "q text": (X, Y, {"q": "5%"}, "q must be a number in (0, 1), got '5%'."),
    "q bool": (X, Y, {"q": True}, "q must be a number"),
    "reduction": (X, Y, {"reduction": "pca"}, "reduction must be a number of components, 'auto',"),
    "reduction 0": (X, Y, {"reduction": 0}, "reduction must be a whole number of at least 1"),
    "progress": (X, Y, {"progress": "yes"}, "progress must be True, False or 'auto'"),
    "dense": (sp.csr_matrix(X), Y, {"reduction": None}, "would make the sparse X dense"),
    "control": (
        X,
        Y,
        {"control": "best"},
        "control must be one of 'people', 'transition', 'exchangeable', got 'best'.",
    ),
    "level": (X, Y, {"level": "smallest"}, "level must be one of 'fixed', 'f1', got 'smallest'."),
    "fit_rows": (X, Y, {"fit_rows": 1}, "fit_rows must be a whole number of at least 2"),
    "neighbours": (X, Y, {"neighbours": 0}, "neighbours must be a whole number of at least 1"),
    "no splits": (X, Y, {"n_splits": 0}, "n_splits must be a whole number of at least 1"),
    "many splits": (X, Y, {"n_splits": 10**9}, "a whole number of at most 1,000, got 1000000000"),
}


@pytest.mark.parametrize("case", CASES)
def test_the_sentence_names_the_argument_and_the_way_out(case):
    features, labels, parameters, sentence = CASES[case]
    with pytest.raises(InputError) as caught:
        KnockoffsSPR(**parameters).fit(features, labels)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ratio", [0, 1, -0.2, "half"])
def test_sprs_share_is_checked(ratio):
    with pytest.raises(InputError, match="clean_ratio must"):
        SPR(clean_ratio=ratio).fit(X, Y)


def test_a_tiny_class_is_judged_when_asked():
    labels = np.where(np.arange(60) == 9, "otter", np.where(np.arange(60) < 30, "cat", "dog"))
    for choice in (
        {},
        {"control": "exchangeable"},
        {"control": "paper"},
        {"control": "paper", "samples_per_class": 8},
    ):
        selection = by_control(min_class_size=1, **choice).fit(X, labels).selection_
        row = {r.label: r for r in selection.summary().per_class}["otter"]
        assert row.n == 1
        assert row.status == {"empty": 1}


@pytest.mark.parametrize("selector", [KnockoffsSPR, SPR])
@pytest.mark.parametrize("seed", [-1, 2**32, 10**40])
def test_a_seed_that_no_generator_takes_is_one_sentence(selector, seed):
    with pytest.raises(InputError, match=f"random_state must be a whole number .* got {seed}"):
        selector(random_state=seed).fit(np.eye(4), [0, 0, 1, 1])


@dataclass
class Typed:
    """One field of each kind."""

    count: int = 1
    rate: float = 0.5
    name: str | None = None
    table: Mapping[str, Any] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"count": 1.0}, "count must be a whole number, got 1.0"),
        ({"rate": "0.5"}, "rate must be a number, got '0.5'"),
        ({"rate": True}, "rate must be a number, got True"),
        ({"name": 3}, "name must be text, got 3"),
        ({"table": []}, "table must be a table"),
    ],
)
def test_a_field_of_another_type_is_named(given, message):
    check_types(Typed(rate=1, name="x", table={"a": 1}))
    with pytest.raises(InputError, match=message):
        check_types(Typed(**given))


@pytest.mark.parametrize("selector", [KnockoffsSPR(), SPR(), PaperKnockoffsSPR()])
def test_tensors_of_a_network_are_taken_as_they_are(selector, digits40):
    """With a graph, or in half precision that NumPy does not know: the same answer."""
    plain = torch.tensor(digits40.X, dtype=torch.bfloat16)
    expected = clone(selector).fit(plain.float(), digits40.y).selection_.clean_mask
    for X in (plain, plain.float().requires_grad_()):
        found = clone(selector).fit(X, digits40.y).selection_.clean_mask
        np.testing.assert_array_equal(found, expected)
