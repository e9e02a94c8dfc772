"""Parts for a training loop of your own: `FeatureStore`, `SelectionCallback`, `CleanSampler`.

>>> import torch
>>> from kspr.train import CleanSampler, SelectionCallback
>>> y = torch.arange(60) % 3
>>> X = torch.eye(3)[y] + 0.1 * torch.rand(60, 3, generator=torch.manual_seed(0))
>>> callback = SelectionCallback(y, X, q=0.2)
>>> sampler = CleanSampler(callback, seed=0)
>>> len(sampler)  # all labels are right
60
>>> callback.collect(torch.arange(60), X)
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
from kspr.train.guard import examine
from kspr.train.policies import with_seen_labels
from kspr.train.task import check_finite


class FeatureStore:
    """Store features and scores of all samples, batch by batch and in any order.

    A sample that is stored again replaces its old values. Tensors stay on the device of the first
    batch.

    Parameters
    ----------
    n
        Number of samples.

    Examples
    --------
    >>> store = FeatureStore(3)
    >>> store.put([2, 0], torch.tensor([[3.0], [1.0]]))
    >>> store.is_complete
    False
    >>> store.put([1], torch.tensor([[2.0]]))
    >>> store.features.tolist()
    [[1.0], [2.0], [3.0]]
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self._features: Tensor | None = None
        self._scores: Tensor | None = None
        self._seen = torch.zeros(n, dtype=torch.bool)

    def put(self, index: Any, features: Tensor, scores: Tensor | None = None) -> None:
        """Store the features, and the scores if given, of the samples with numbers `index`.

        Parameters
        ----------
        index
            Numbers of the samples, from 0 to n - 1.
        features
            One row per sample.
        scores
            One row per sample with a score per class, such as logits; optional.
        """
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
        """Whether features of every sample are stored."""
        return bool(self._seen.all())

    @property
    def features(self) -> Tensor:
        """Features of all samples, ``(n, d)``."""
        if self._features is None or not self.is_complete:
            missing = int((~self._seen).sum())
            raise InputError(
                f"{missing} of {self.n} samples have no features yet. Store all of them before "
                "the first selection."
            )
        return self._features

    @property
    def scores(self) -> Tensor | None:
        """Scores of all samples, ``(n, classes)``; None if none were stored."""
        return self._scores

    def _placed(self, held: Tensor | None, rows: Tensor, values: Tensor) -> Tensor:
        # Detached: a stored graph would hold the memory of every batch.
        values = values.detach().float()
        if held is None:
            held = values.new_zeros((self.n, *values.shape[1:]))
        # Features of one epoch may come from several devices; the first one keeps them.
        held[rows.to(held.device)] = values.to(held.device)
        return held


class SelectionCallback:
    """Select clean samples before training, and by the network's features during it.

    A network that has learned wrong labels by heart finds them right. So the first selection is by
    features that have not seen the labels, and one by the network is used only while it finds about
    as many wrong labels among the samples it learns; otherwise the last selection that was used
    stays, with a warning.

    The attribute ``clean_mask`` holds the samples to train on; with `guard` all, as long as no
    selection was healthy. ``selection`` is the `Selection` in use.

    Parameters
    ----------
    y
        Labels of all samples, in the order of their numbers.
    features
        Features of all samples that have not seen the labels: embeddings, what the network gives
        before training if it was trained on something else, or the inputs where nothing is better.
    guard
        Use a selection only if it is healthy (rule 1 of the guard in docs/training.md).
    **selection
        Parameters of `KnockoffsSPR`, such as ``q``.

    Examples
    --------
    >>> y = torch.arange(60) % 3
    >>> X = torch.eye(3)[y] + 0.1 * torch.rand(60, 3, generator=torch.manual_seed(0))
    >>> callback = SelectionCallback(y, X, q=0.2)
    >>> callback.collect(torch.arange(60), X)
    >>> len(callback.end_epoch()) == len(callback.clean_mask) == 60
    True
    """

    def __init__(self, y: Any, features: Any, *, guard: bool = True, **selection: Any) -> None:
        self.y = np.asarray(y)
        self.store = FeatureStore(len(self.y))
        self._guard, self._parameters = guard, {"progress": False, **selection}
        self.selection: Selection = self._select(features)
        self._unseen = self.selection
        self.clean_mask = np.ones(len(self.y), dtype=bool)
        self.clean_mask = self._usable(self.selection)

    def collect(self, index: Any, features: Tensor) -> None:
        """Store the features of the samples `index`; call it for every batch."""
        self.store.put(index, features)

    def end_epoch(self) -> Selection:
        """Select by the stored features, and return the selection in use; call after an epoch."""
        check_finite((self.store.features,), "Lower its learning rate.")
        selection = with_seen_labels(self._select(self.store.features))
        if self._has_memorised(selection):
            return self.selection
        self.selection, self.clean_mask = selection, self._usable(selection)
        return selection

    def _select(self, features: Any) -> Selection:
        return KnockoffsSPR(**self._parameters).fit(features, self.y).selection_

    def _has_memorised(self, selection: Selection) -> bool:
        """Warn and return True if the network finds the labels right that it has learned."""
        unseen, learned = self._unseen, self.clean_mask
        if selection.noise is None or unseen.noise is None:
            return False
        own, other = _wrong(selection, learned), _wrong(unseen, learned)
        # Where no more would be wrong than may be, nothing is lost.
        allowed = unseen.summary().q_asked or _wrong(unseen, unseen.clean_mask)
        if own >= _LOST * other or _wrong(unseen, selection.clean_mask) <= allowed:
            return False
        warnings.warn(
            "The network has begun to learn the labels by heart: of the samples it learns, "
            f"{own:.1%} are wrong by its features, by features that have not seen them "
            f"{other:.1%}. The selection before stays in use.",
            stacklevel=3,
        )
        return True

    def _usable(self, selection: Selection) -> np.ndarray:
        """Return the mask to train on: that in use where `selection` is not healthy."""
        if not self._guard:
            return selection.clean_mask
        health = examine(selection, "the samples in use stay")
        for reason in health.reasons:
            warnings.warn(reason, stacklevel=3)
        return self.clean_mask if health.keep is None else health.keep


_LOST = 2 / 3
"""A network has memorised if it finds less than this share of the wrong labels that unseen features
find among the samples it learns: of a fixed set, whatever has not seen its labels estimates the
same share, good or bad. With q = .1 and 20 or 40 % noise on digits, CIFAR-10 features and
embeddings of banking77, selections of networks that found more kept .07 to .14 wrong labels, the
others up to .40 (benchmarks/own_loop.py). The noise of all labels tells it too late: on CIFAR-10,
.17 were wrong where it was still estimated at .33, for .38; and labels that are all right were
taken for memorised."""


def _wrong(selection: Selection, rows: np.ndarray) -> float:
    """Return the share of wrong labels among `rows` that `selection` estimates; 0 for no rows."""
    # With control="exchangeable" nothing is known of single labels, and of all labels how many.
    if selection.control == "exchangeable":
        return 0.0 if selection.noise is None else selection.noise.rate
    return float(selection.doubt[rows].sum() / max(rows.sum(), 1))


class CleanSampler(Sampler[int]):
    """Sample the numbers of the clean samples, in a new random order each epoch.

    Pass it to a ``torch.utils.data.DataLoader`` as `sampler`.

    Parameters
    ----------
    callback
        Its ``clean_mask`` is read at the start of each epoch.
    seed
        Seed of the random order.

    Examples
    --------
    >>> y = [0, 1] * 10
    >>> sampler = CleanSampler(SelectionCallback(y, np.eye(2)[y], q=0.2), seed=0)
    >>> len(list(sampler)) == len(sampler) == 20
    True
    """

    def __init__(self, callback: SelectionCallback, *, seed: int = 0) -> None:
        self._callback, self._seed, self._epoch = callback, seed, 0

    def __len__(self) -> int:
        return int(self._callback.clean_mask.sum())

    def __iter__(self) -> Iterator[int]:
        rows = np.flatnonzero(self._callback.clean_mask)
        # By epoch: an order does not depend on how many were drawn before.
        rng = np.random.default_rng([self._seed, self._epoch])
        self._epoch += 1
        return iter(rng.permutation(rows).tolist())
