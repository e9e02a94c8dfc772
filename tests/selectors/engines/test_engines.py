"""Every engine gives the same answer."""

import numpy as np
import pytest

from kspr import SPR, KnockoffsSPR
from kspr.selectors.engines import ENGINES, run


@pytest.mark.parametrize(
    ("selector", "choice"),
    [
        (SPR, {}),
        (SPR, {"classes_per_group": 4, "samples_per_class": 40}),
        (KnockoffsSPR, {}),
        (KnockoffsSPR, {"samples_per_class": 40}),
        (KnockoffsSPR, {"control": "exchangeable", "samples_per_class": 40}),
        (KnockoffsSPR, {"control": "paper"}),
        (KnockoffsSPR, {"control": "paper", "classes_per_group": 4, "samples_per_class": 40}),
    ],
)
def test_every_engine_gives_the_serial_answer(digits40, selector, choice, monkeypatch):
    # Small batches: several work items even on this little data.
    monkeypatch.setattr("kspr.selectors._plan._BATCH_BYTES", 1 << 16)

    def statistic(engine, n_jobs):
        model = selector(engine=engine, n_jobs=n_jobs, reduction=8, **choice)
        return model.fit(digits40.X, digits40.y).selection_.statistic

    serial = statistic("serial", None)
    for engine, n_jobs in [("threads", 1), ("threads", 3), ("processes", 2)]:
        assert np.array_equal(statistic(engine, n_jobs), serial), (engine, n_jobs)


class Counted:
    """A progress that counts."""

    def __init__(self) -> None:
        self.done = 0

    def advance(self) -> None:
        self.done += 1


@pytest.mark.parametrize("engine", ENGINES)
def test_results_come_in_the_order_of_the_items_and_each_is_counted(engine):
    progress = Counted()
    items = [3, 1, 2]
    assert run(str, items, engine=engine, n_jobs=2, progress=progress) == ["3", "1", "2"]
    assert progress.done == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_failure_of_one_item_is_the_failure_of_all(engine):
    with pytest.raises(ValueError, match="invalid literal"):
        run(int, ["1", "x", "2"], engine=engine, n_jobs=2, progress=Counted())
