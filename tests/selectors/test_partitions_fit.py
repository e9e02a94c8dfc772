"""A fit by two workers has the bits of one machine, wherever blocks and halves end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kspr.core import arrays
from kspr.core.procedure import Procedure
from kspr.core.splitting import part_as_piece
from kspr.selectors import _partitions_fit
from kspr.selectors._partitions_fit import FitJob, FitPart, fit_in_two
from kspr.selectors._pieces import fit_whole
from kspr.selectors._plan import Reduction, plan_part
from kspr.selectors.feature_rows import DenseFeatures
from tests.selectors.clusters import noisy_data

laws = settings(max_examples=30, deadline=None)
X, y = noisy_data(400)


def parts_of(half: np.ndarray, cuts: list[int], side: int) -> list[FitPart]:
    found = []
    for rows in np.split(np.arange(len(half)), sorted(cuts)):
        mine = rows[half[rows] == side]
        first = rows[0] if len(rows) else 0
        found.append(FitPart(X[mine], y[mine].astype(np.int32), (mine - first).astype(np.int32)))
    return found


@laws
@given(
    share=st.floats(0.1, 0.9),
    cuts=st.lists(st.integers(0, 400), max_size=3),
    floats=st.sampled_from([64 * 12, 100 * 12, 333 * 12, 1 << 19]),
    intercept=st.booleans(),
    reduction=st.sampled_from([None, 5]),
    products=st.sampled_from([0, 1 << 28]),
)
def test_two_workers_fit_what_one_machine_fits(share, cuts, floats, intercept, reduction, products):
    half = (np.random.default_rng(len(cuts)).random(400) > share).astype(np.int8)
    procedure = Procedure(intercept=intercept, first_step="refit")
    chosen = Reduction(reduction, "auto")
    sizes = np.stack([np.bincount(y[half == side], minlength=4) for side in (0, 1)])
    n_fitted = (int((half == 0).sum()), int((half == 1).sum()))
    job = FitJob(4, 400, 12, "float32", n_fitted, chosen, procedure, 3, sizes)
    asked = []

    def once(place, function, *arguments):
        asked.append((place, function.__name__))
        return function(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "_BLOCK_FLOATS", floats)
        patch.setattr(_partitions_fit, "_PRODUCTS", products)
        piece = part_as_piece(np.arange(400), y, half, 4)
        plan = plan_part(DenseFeatures(X), piece, chosen, procedure, 3)
        expected = fit_whole(plan, procedure, lambda: None)
        fit, least = fit_in_two(
            once, parts_of(half, cuts, 0), parts_of(half, cuts, 1), job, place=6
        )
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(fit, name), value, err_msg=name)
    assert least.shape == (8,)
    # Each half is fitted by a worker of its own.
    fits = "fit_rows" if reduction is None and products else "fit_scores"
    assert [place for place, name in asked if name == fits] == [6, 7]
