"""Every engine gives the same answer."""

import numpy as np
import pytest

from kspr import SPR, KnockoffsSPR


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
    monkeypatch.setattr("kspr.selectors._pieces._BATCH_BYTES", 1 << 16)

    def statistic(engine, n_jobs):
        model = selector(engine=engine, n_jobs=n_jobs, reduction=8, **choice)
        return model.fit(digits40.X, digits40.y).selection_.statistic

    serial = statistic("serial", None)
    for engine, n_jobs in [("threads", 1), ("threads", 3), ("processes", 2)]:
        assert np.array_equal(statistic(engine, n_jobs), serial), (engine, n_jobs)
