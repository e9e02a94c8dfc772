"""The question to a method (`Shared`), its answer (`Judged`), and how its cost is measured."""

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neighbors import NearestNeighbors

from kspr._packages import require

PACKAGE = "'knockoffs-spr[peers]'"
"""The extra that installs the packages of other methods."""
NEIGHBOURS = 20
"""Default number of nearest rows."""
_FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
"""Shuffled: where rows are sorted by class, scikit-learn's own folds would put the wrong labels
of a class into one fold, and a model would be asked just about those that it has not seen."""
KNOWN_RATE = "known rate"
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_T = TypeVar("_T")


@dataclass(frozen=True, eq=False)
class Product:
    """An intermediate result, with what it cost."""

    value: np.ndarray
    seconds: float
    growth: int | None
    """Bytes by which the process grew meanwhile; None where that cannot be measured."""


class Shared:
    """What all methods get: the same rows, and intermediate results that are computed once.

    A product is computed when a method first asks for it. `used` holds the names of all products
    that were asked for since it was last emptied: `charge` adds their cost to each method that
    uses them, not only to the first.
    """

    def __init__(
        self,
        X: np.ndarray,
        y: np.ndarray,
        n_classes: int | None = None,
        *,
        q: float = 0.1,
        known_rate: float | None = None,
        probabilities: np.ndarray | None = None,
    ) -> None:
        self.X, self.y = X, y
        """Features, reduced; labels as codes from 0."""
        self.n_classes = int(y.max()) + 1 if n_classes is None else n_classes
        self.q = q
        """Error rate for the methods that take one."""
        self._known_rate = known_rate
        self.used: set[str] = set()
        self.products: dict[str, Product] = {}
        if probabilities is not None:
            # Whoever brings them has paid for them.
            self.products["probabilities"] = Product(probabilities, 0.0, None)

    @property
    def known_rate(self) -> float | None:
        """The true share of wrong labels, for methods that need it."""
        # Reading it is noted: the table marks methods that are told the rate.
        self.used.add(KNOWN_RATE)
        return self._known_rate

    def probabilities(self) -> np.ndarray:
        """Return class probabilities of every row, from a model that was not trained on it.

        Those that the comparison was given; else five-fold cross-validated multinomial logistic
        regression with scikit-learn's own settings (L2, C = 1, lbfgs), at most 200 iterations.
        """

        def make() -> np.ndarray:
            model = LogisticRegression(max_iter=200)
            return np.asarray(
                cross_val_predict(model, self.X, self.y, cv=_FOLDS, method="predict_proba")
            )

        return self._product("probabilities", make)

    def neighbours(self, k: int = NEIGHBOURS) -> np.ndarray:
        """Return the `k` nearest other rows of each row, nearest first, by Euclidean distance."""
        # Tiny data has fewer other rows than neighbours asked for.
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
    """An answer, and what it cost, products included."""

    answer: _T
    seconds: float
    growth: int | None
    """Bytes by which the process grew at its peak; None where that cannot be measured."""
    told: bool
    """Whether the method read the true noise rate."""


def charge(shared: Shared, work: Callable[[], _T]) -> Charged[_T]:
    """Run `work` and measure its cost; products that were ready before count in full."""
    ready = set(shared.products)
    shared.used = set()
    start = time.perf_counter()
    answer, grown = peak_growth(work)
    seconds = time.perf_counter() - start
    used = [shared.products[name] for name in shared.used & set(shared.products)]
    # Products that were computed during the work are in its seconds already.
    earlier = [shared.products[name] for name in shared.used & ready]
    seconds += sum(product.seconds for product in earlier)
    growth = None
    if grown is not None:
        # A product that was ready before did not grow the process, but the method needs it.
        own = grown + sum(product.value.nbytes for product in earlier)
        # The largest, not the sum: the peaks were not at the same time.
        growth = max([own, *(product.growth or 0 for product in used)])
    return Charged(answer, seconds, growth, KNOWN_RATE in shared.used)


def nearest_rows(X: np.ndarray, k: int) -> np.ndarray:
    """Return the `k` nearest other rows of each row, nearest first, by brute force."""
    # Trees do not help in a hundred dimensions.
    index = NearestNeighbors(n_neighbors=k + 1, algorithm="brute").fit(X)
    # The nearest row of each is itself, or a duplicate of it.
    return np.asarray(index.kneighbors(X, return_distance=False)[:, 1:])


def centred(X: np.ndarray) -> np.ndarray:
    """Return columns of mean 0, divided by one common scale: ratios of distances stay."""
    moved = X - X.mean(axis=0)
    return np.asarray(moved / max(float(np.sqrt(np.mean(moved**2))), 1e-12))


@dataclass(frozen=True, eq=False)
class Judged:
    """The answer of a method: what it keeps, and how it ranks all rows."""

    clean: np.ndarray
    """True where the label is kept."""
    suspicion: np.ndarray
    """One number per row, large where the label is suspicious."""
    noise_rate: float | None = None
    """Estimated share of wrong labels; None for methods without an estimate."""


class Peer(Protocol):
    """A method that judges labels.

    A method that imports optional packages lists the modules in an attribute `needs`: a comparison
    imports them first, so that a missing one is reported at the start and no import is timed. One
    that looks at probabilities and at no features has the attribute `by_probabilities`, True.
    """

    def judge(self, shared: Shared, *, seed: int) -> Judged:
        """Judge every label; the answer depends on `shared` and `seed` only."""
        ...


def import_needs(methods: Sequence[tuple[str, Any]]) -> None:
    """Import the modules that methods list in `needs`; raise for the first that is missing."""
    for name, method in methods:
        for module in getattr(method, "needs", ()):
            require(module, f"The method {name!r}", PACKAGE)


def peak_growth(work: Callable[[], _T]) -> tuple[_T, int | None]:
    """Run `work`; return its answer, and the bytes by which resident memory grew at its peak.

    Linux records the peak (``VmHWM``) and lets a process reset it; on other systems the growth is
    None. Freed memory is returned to the system first: if `work` used it again, no growth would
    show.
    """
    if not _reset():
        return work(), None
    before = _status("VmRSS")
    answer = work()
    return answer, max(0, _status("VmHWM") - before)


def _reset() -> bool:
    """Return freed memory to the system and reset the peak; False where that is not possible."""
    try:
        # The C library keeps freed memory: without this, a later method would grow by less.
        ctypes.CDLL(None).malloc_trim(0)
        # 5 resets the peak of resident memory (proc_pid_clear_refs(5)).
        _CLEAR.write_text("5")
    # No malloc_trim outside of glibc; no CDLL(None) on Windows; no clear_refs outside of Linux.
    except (AttributeError, OSError, TypeError):
        return False
    return _STATUS.exists()


def _status(name: str) -> int:
    line = next(row for row in _STATUS.read_text().splitlines() if row.startswith(name + ":"))
    # The file has kB.
    return int(line.split()[1]) * 1024
