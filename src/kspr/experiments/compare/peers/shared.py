"""How much the process grows while something runs."""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import NearestNeighbors

from kspr._packages import require

__all__ = [
    "NEIGHBOURS",
    "PACKAGE",
    "Charged",
    "Judged",
    "Peer",
    "Product",
    "Shared",
    "centred",
    "charge",
    "import_needs",
    "nearest_rows",
    "peak_growth",
]

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_T = TypeVar("_T")


def peak_growth(work: Callable[[], _T]) -> tuple[_T, int | None]:
    """Run `work`; return its answer, and by how many bytes the resident memory rose at its peak.

    Linux keeps that peak (``VmHWM``) and lets a process reset it. Memory that was freed before is
    handed back first, so that its reuse is seen. None on other systems.
    """
    if not _reset():
        return work(), None
    before = _status("VmRSS")
    answer = work()
    return answer, max(0, _status("VmHWM") - before)


def _reset() -> bool:
    """Hand back free memory and forget the peak; say whether the system allows it."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        _CLEAR.write_text("5")
    except (AttributeError, OSError, TypeError):
        return False
    return _STATUS.exists()


def _status(name: str) -> int:
    line = next(row for row in _STATUS.read_text().splitlines() if row.startswith(name + ":"))
    return int(line.split()[1]) * 1024


PACKAGE = "'knockoffs-spr[peers]'"
"""What brings the packages of other methods."""
NEIGHBOURS = 20
"""Nearest rows that are kept ready; a method may ask for others."""
FOLDS = 5
KNOWN_RATE = "known rate"


@dataclass(frozen=True, eq=False)
class Product:
    """Something that took time to make."""

    value: np.ndarray
    seconds: float
    growth: int | None
    """Bytes by which the process grew while it was made; None where that cannot be seen."""


class Shared:
    """One question to all methods: the same rows, and intermediate results made once.

    A product is made when it is first asked for. `used` collects what was asked for since it was
    last cleared, so that `charge` can bill each method for all it needs, whoever came first.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_classes: int | None = None,
        *,
        q: float = 0.1,
        known_rate: float | None = None,
    ) -> None:
        self.X, self.y = X, y
        """Features, reduced already; labels as codes from 0."""
        self.n_classes = int(y.max()) + 1 if n_classes is None else n_classes
        self.q = q
        """The error rate that is asked of methods that take one."""
        self._known_rate = known_rate
        self.used: set[str] = set()
        self.products: dict[str, Product] = {}

    @property
    def known_rate(self) -> float | None:
        """The true share of wrong labels, for methods that must be told."""
        self.used.add(KNOWN_RATE)
        return self._known_rate

    def probabilities(self) -> np.ndarray:
        """Return class probabilities of rows that the model has not seen.

        Five-fold cross-validated multinomial logistic regression with scikit-learn's own
        settings (L2, C = 1, lbfgs), at most 200 iterations.
        """

        def make() -> np.ndarray:
            model = LogisticRegression(max_iter=200)
            return np.asarray(
                cross_val_predict(model, self.X, self.y, cv=FOLDS, method="predict_proba")
            )

        return self._product("probabilities", make)

    def neighbours(self, k: int = NEIGHBOURS) -> np.ndarray:
        """Return the `k` nearest other rows of each row, nearest first, by Euclidean distance."""
        k = min(k, len(self.X) - 1)
        return self._product(f"neighbours {k}", lambda: nearest_rows(self.X, k))

    def _product(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        self.used.add(name)
        if name not in self.products:
            start = time.perf_counter()
            value, growth = peak_growth(make)
            self.products[name] = Product(value, time.perf_counter() - start, growth)
        return self.products[name].value


@dataclass(frozen=True, eq=False)
class Charged(Generic[_T]):
    """An answer, and what it cost with everything that it rests on."""

    answer: _T
    seconds: float
    growth: int | None
    """Bytes by which the process grew at its peak; None where that cannot be seen."""
    told: bool
    """Whether the true noise rate was looked at."""


def charge(shared: Shared, work: Callable[[], _T]) -> Charged[_T]:
    """Run `work`; products that it finds ready cost as much as if it had made them."""
    ready = set(shared.products)
    shared.used = set()
    start = time.perf_counter()
    answer, grown = peak_growth(work)
    seconds = time.perf_counter() - start
    used = [shared.products[name] for name in shared.used & set(shared.products)]
    found = [shared.products[name] for name in shared.used & ready]
    seconds += sum(product.seconds for product in found)
    growth = None
    if grown is not None:
        own = grown + sum(product.value.nbytes for product in found)
        growth = max([own, *(product.growth or 0 for product in used)])
    return Charged(answer, seconds, growth, KNOWN_RATE in shared.used)


def nearest_rows(X: Any, k: int) -> np.ndarray:
    """Return the `k` nearest other rows of each row, by distance; brute force."""
    index = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(X)
    return np.asarray(index.kneighbors(X, return_distance=False)[:, 1:])


def centred(X: np.ndarray) -> np.ndarray:
    """Return columns of mean 0 on one common scale of 1: distances keep their proportions."""
    moved = X - X.mean(axis=0)
    return np.asarray(moved / max(float(np.sqrt(np.mean(moved**2))), 1e-12))


@dataclass(frozen=True, eq=False)
class Judged:
    """A method's answer: what it keeps, and how it ranks."""

    clean: np.ndarray
    """True where the label is trusted."""
    suspicion: np.ndarray
    """One number per sample, large where the label is suspicious."""
    noise_rate: float | None = None
    """Estimated share of wrong labels; None for methods that do not say, or are told."""


class Peer(Protocol):
    """A method that judges labels.

    One that imports an optional package names the modules in an attribute `needs`, so that a
    comparison can say at its start what is missing, and import it before it looks at the clock.
    """

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Judge every label; the answer depends on `shared` and `seed` alone."""
        ...


def import_needs(methods: Sequence[tuple[str, Any]]) -> None:
    """Import what methods say they need, so that nothing is missed, or timed, later on."""
    for name, method in methods:
        for module in getattr(method, "needs", ()):
            require(module, f"The method {name!r}", PACKAGE)
