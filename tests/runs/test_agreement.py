"""How people agree, against scikit-learn's kappa."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score

from kspr.runs.agreement import agreements, cohen_kappa
from kspr.selectors.review_log import Opinion

ANSWERS = st.sampled_from(["cat", "dog", "-", "?"])


@given(st.lists(st.tuples(ANSWERS, ANSWERS), min_size=2, max_size=60))
def test_kappa_is_the_one_of_scikit_learn(said):
    ones, others = zip(*said, strict=True)
    found = cohen_kappa(said)
    if found is None:
        assert set(ones) == set(others)
        assert len(set(ones)) == 1
    else:
        assert found == pytest.approx(cohen_kappa_score(ones, others))


def test_only_rows_that_two_people_share_count():
    opinions = [
        Opinion(1, {"anna": "cat", "ben": "cat"}),
        Opinion(2, {"anna": "cat", "ben": "dog", "cleo": "dog"}),
        Opinion(3, {"anna": "cat"}),
    ]
    found = {(a.one, a.other): (a.n, a.share) for a in agreements(opinions)}
    assert found == {("anna", "ben"): (2, 0.5), ("anna", "cleo"): (1, 0), ("ben", "cleo"): (1, 1)}
