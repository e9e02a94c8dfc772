"""The selection in a training loop of your own.

>>> import torch
>>> from kspr.train import CleanSampler, SelectionCallback
>>> y = torch.arange(60) % 3
>>> X = torch.eye(3)[y] + 0.1 * torch.rand(60, 4, generator=torch.manual_seed(0))[:, :3]
>>> callback = SelectionCallback(y, q=0.2)
>>> sampler = CleanSampler(callback, seed=0)
>>> len(sampler)  # nothing selected yet: everything is used
60
>>> callback.collect(torch.arange(60), X, scores=X)
>>> callback.end_epoch().clean_mask.shape
(60,)
"""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Sampler

from kspr.errors import InputError
from kspr.selectors import KnockoffsSPR, Selection
from kspr.train.cycle.guard import examine

__all__ = ["CleanSampler", "FeatureStore", "SelectionCallback"]


class FeatureStore:
    """The last features and scores of each of `n` samples, on the device they come from.

    Put them in batch by batch, in any order and as often as you like; the last ones count.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._features: Tensor | None = None
        self._scores: Tensor | None = None
        self._seen = torch.zeros(n, dtype=torch.bool)

    def put(self, index: Any, features: Tensor, scores: Tensor | None = None) -> None:
        """Store what a network says of the samples `index`."""
        rows = torch.as_tensor(index).reshape(-1).long()
        if len(rows) != len(features) or (scores is not None and len(rows) != len(scores)):
            raise InputError(
                f"index has {len(rows)} entries but there are {len(features)} rows of features."
            )
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < self.n:
            raise InputError(f"index must lie in 0..{self.n - 1}, got {int(rows.max())}.")
        self._features = self._placed(self._features, rows, features)
        if scores is not None:
            self._scores = self._placed(self._scores, rows, scores)
        self._seen[rows.cpu()] = True

    @property
    def is_complete(self) -> bool:
        """Whether every sample has features."""
        return bool(self._seen.all())

    @property
    def features(self) -> Tensor:
        """Features of all samples, ``(n, d)``."""
        if self._features is None or not self.is_complete:
            missing = int((~self._seen).sum())
            raise InputError(
                f"{missing} of {self.n} samples have no features yet. Go through all of them once "
                "before the first selection."
            )
        return self._features

    @property
    def scores(self) -> Tensor | None:
        """Scores of all samples, ``(n, classes)``; None where none were put in."""
        return self._scores

    def _placed(self, held: Tensor | None, rows: Tensor, values: Tensor) -> Tensor:
        values = values.detach().float()
        if held is None:
            held = values.new_zeros((self.n, *values.shape[1:]))
        held[rows.to(held.device)] = values.to(held.device)
        return held


class SelectionCallback:
    """Collect features while training, select at the end of an epoch.

    `y` are the labels of all samples in the order of their index; `selection` are parameters of
    `KnockoffsSPR`. ``clean_mask`` is all true until a selection was made, and after one that is not
    healthy, unless `guard` is False.
    """

    def __init__(self, y: Any, *, guard: bool = True, **selection: Any) -> None:
        self.y = np.asarray(y)
        self.store = FeatureStore(len(self.y))
        self.selection: Selection | None = None
        self.clean_mask = np.ones(len(self.y), dtype=bool)
        self._guard, self._parameters = guard, {"progress": False, **selection}
        KnockoffsSPR(**self._parameters)  # a wrong parameter is found now

    def collect(self, index: Any, features: Tensor, scores: Tensor | None = None) -> None:
        """Call this for every batch, with the samples' numbers in the data set."""
        self.store.put(index, features, scores)

    def end_epoch(self) -> Selection:
        """Call this after every epoch: select, and use it from the next epoch on."""
        last = None if self.selection is None else self.selection.clean_mask
        selector = KnockoffsSPR(**self._parameters)
        selector.fit(self.store.features, self.y, self.store.scores, clean_mask=last)
        self.selection = selector.selection_
        self.clean_mask = self._usable(self.selection)
        return self.selection

    def _usable(self, selection: Selection) -> np.ndarray:
        if not self._guard:
            return selection.clean_mask
        health = examine(selection)
        for reason in health.reasons:
            warnings.warn(reason, stacklevel=3)
        return np.ones(len(self.y), dtype=bool) if health.keep is None else health.keep


class CleanSampler(Sampler[int]):
    """Row numbers of the clean samples, in a new random order each epoch, for a ``DataLoader``."""

    def __init__(self, callback: SelectionCallback, *, seed: int = 0) -> None:
        self._callback, self._seed, self._epoch = callback, seed, 0

    def __len__(self) -> int:
        return int(self._callback.clean_mask.sum())

    def __iter__(self) -> Iterator[int]:
        rows = np.flatnonzero(self._callback.clean_mask)
        rng = np.random.default_rng([self._seed, self._epoch])
        self._epoch += 1
        return iter(rng.permutation(rows).tolist())
