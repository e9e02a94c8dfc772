"""Row e: cleanlab's documented recipe beside ours, on the same features."""

from dataclasses import asdict
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from _clock import fastest
from _common import Check, Row
from _setting import Setting, plain, quality_on
from kspr import KnockoffsSPR

__all__ = ["row_e"]


def row_e(setting: Setting) -> Row:
    """Set cleanlab beside it: cross-validated logistic regression, then its default filter."""
    data = setting.data
    X = np.ascontiguousarray(data.X[:, :256])
    ours, masks = KnockoffsSPR(q=0.05, progress=False), dict[str, np.ndarray]()
    timings = setting.clock.alternate(
        setting.repeats,
        ours=partial(ours.fit, X, data.y),
        cleanlab=lambda: masks.update(cleanlab=cleanlab_mask(X, data.y, setting.threads)),
    )
    masks["ours"] = ours.selection_.clean_mask
    everything = np.arange(len(data.y))
    quality = {name: quality_on(data, masks[name], everything) for name in timings}
    # Cleanlab's folds run in processes that the clock takes for others: all of its times count.
    share = fastest(timings["ours"]) / min(timing.seconds for timing in timings["cleanlab"])
    checks = [Check.at_most("share of cleanlab's time", share, 0.25)]
    checks += [
        Check(f"{measure}: {name}", getattr(found, measure))
        for name, found in quality.items()
        for measure in ("fsr", "recall", "f1")
    ]
    raw = {name: plain(found) for name, found in timings.items()}
    raw["quality"] = {name: asdict(found) for name, found in quality.items()}
    return Row("e", "beside cleanlab, 256 dimensions", checks, raw)


def cleanlab_mask(X: np.ndarray, y: np.ndarray, jobs: int) -> np.ndarray:
    """Return what cleanlab's documented recipe keeps; folds side by side are its fastest way."""
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    model = LogisticRegression(max_iter=200)
    with threadpool_limits(limits=1, user_api="blas"):
        scores = cross_val_predict(model, X, y, cv=5, method="predict_proba", n_jobs=jobs)
        return ~np.asarray(find_label_issues(y, scores))
