"""Row a of `speed.py`: the paper preset against a plain transcription of the paper's steps.

The transcription is Alg. 1 on one piece, step by step with scikit-learn.

It is what a careful reader would write first: explicit matrices, one solver call per path,
one loop per formula. Nothing of `kspr` is used in it, so that agreement with it means something.

Two properties follow from scikit-learn's path, which knows lam at 100 levels only:
selection times are tied wherever rows enter at the same level, and a row whose label and
knockoff enter together has ``W = 0`` and cannot be selected.
"""

from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import PCA
from sklearn.linear_model import enet_path
from threadpoolctl import threadpool_limits

from _clock import Timing, median
from _common import either
from _speed import Check, Data, Row, Setting, plain, quality_on
from kspr import PaperKnockoffsSPR, Selection

__all__ = ["row_a"]

LEVELS = [step / 50 for step in range(1, 26)]
"""The paper's q: 0.02 in steps of 0.02 to 0.5."""


@dataclass(frozen=True)
class Grid:
    """The levels of the path: as many as scikit-learn and glmnet take, and as far down."""

    size: int = 100
    eps: float = 1e-3


def select_piece(
    X: np.ndarray, y: np.ndarray, half: np.ndarray, n_classes: int, grid: Grid | None = None
) -> np.ndarray:
    """Return which rows of a piece are clean (Alg. 2, lines 4 to 7).

    `half` is 0 for the rows of sub-piece A and 1 for those of B.
    """
    grid = grid or Grid()
    X = PCA(n_classes, svd_solver="full").fit_transform(X.astype(np.float64))
    clean = np.zeros(len(y), dtype=bool)
    for first, second in ((0, 1), (1, 0)):
        fit, judge = half == first, half == second
        beta = estimate_beta(X[fit], y[fit], n_classes, grid)
        W = statistics(X[judge], y[judge], beta, grid)
        clean[judge] = clean_set(W, y[judge], n_classes)
    return clean


def estimate_beta(X: np.ndarray, y: np.ndarray, n_classes: int, grid: Grid) -> np.ndarray:
    """Fit the half of the data that SPR keeps (step i)."""
    Y = np.eye(n_classes)[y]
    kept = np.argsort(spr_times(X, Y, grid), kind="stable")[: -(-len(y) // 2)]
    return np.asarray(np.linalg.lstsq(X[kept], Y[kept])[0])


def spr_times(X: np.ndarray, Y: np.ndarray, grid: Grid) -> np.ndarray:
    """Solve Eq. spr: beta is projected away by ``I - H``, gamma is a group lasso."""
    H = X @ np.linalg.pinv(X.T @ X) @ X.T
    X_tilde = np.eye(len(X)) - H
    Y_tilde = X_tilde @ Y
    return path_times(X_tilde, Y_tilde, levels(X_tilde.T @ Y_tilde, grid))


def statistics(X: np.ndarray, y: np.ndarray, beta: np.ndarray, grid: Grid) -> np.ndarray:
    """Set each label against the most confident other one (step ii, and Eq. W)."""
    n_classes = beta.shape[1]
    fitted = X @ beta
    own, others = np.eye(n_classes)[y], fitted.copy()
    others[np.arange(len(y)), y] = -np.inf
    swapped = np.eye(n_classes)[others.argmax(axis=1)]
    residual, residual_tilde = own - fitted, swapped - fitted
    # Z and Z~ are compared with each other, so both paths have to stop at the same levels.
    lams = levels(np.concatenate([residual, residual_tilde]), grid)
    identity = np.eye(len(X))
    Z = path_times(identity, residual, lams)
    Z_tilde = path_times(identity, residual_tilde, lams)
    return np.asarray(Z * np.sign(Z - Z_tilde))


def levels(moments: np.ndarray, grid: Grid) -> np.ndarray:
    """Return descending levels of lam, from the one at which no row is selected yet."""
    top = np.linalg.norm(moments, axis=1).max()
    return np.geomspace(top, top * grid.eps, grid.size)


def path_times(X: np.ndarray, Y: np.ndarray, lams: np.ndarray) -> np.ndarray:
    """Return the first lam at which each row of gamma is not zero; 0 if there is none."""
    # scikit-learn divides the squared loss by the number of rows.
    _, gamma, _ = enet_path(X, Y, l1_ratio=1.0, alphas=lams / len(X))
    selected = (gamma != 0).any(axis=0)
    return np.where(selected.any(axis=1), lams[selected.argmax(axis=1)], 0.0)


def clean_set(W: np.ndarray, y: np.ndarray, n_classes: int) -> np.ndarray:
    """Raise q class by class until Eq. T has an answer (Alg. 1, lines 4 to 8)."""
    clean = np.zeros(len(y), dtype=bool)
    for c in range(n_classes):
        members = np.flatnonzero(y == c)
        W_c = W[members]
        for q in LEVELS:
            T = cutoff(W_c, q)
            if T > 0:
                break
        kept = (W_c >= -T) & (W_c < 0) if T > 0 else best_half(W_c)
        clean[members] = kept
    return clean


def cutoff(W: np.ndarray, q: float) -> float:
    """Return T of Eq. T, trying the magnitudes from the largest down."""
    values = W.tolist()
    for t in sorted({abs(w) for w in values if w != 0}, reverse=True):
        behind = sum(0 < w <= t for w in values)
        ahead = sum(-t <= w < 0 for w in values)
        if (1 + behind) / max(ahead, 1) <= q:
            return t
    return 0.0


def best_half(W: np.ndarray) -> np.ndarray:
    """Return the half that is most likely clean: small negative W first, large positive last."""
    order = np.lexsort((np.abs(W), W >= 0))
    kept = np.zeros(len(W), dtype=bool)
    kept[order[: (len(W) + 1) // 2]] = True
    return kept


GRID = Grid(size=either(100, 20))
TRANSCRIPTION_SECONDS = 75.0
LEAST_PIECES = 16
FINE_GRID = Grid(size=either(400, 30))


@dataclass(frozen=True)
class Piece:
    """One piece of the library's split: its rows, and the half that each is in."""

    index: np.ndarray
    half: np.ndarray


def row_a(setting: Setting) -> Row:
    """Time the paper preset against the transcription, fits and pieces in turn."""
    data = setting.data
    ours = PaperKnockoffsSPR(n_jobs=setting.threads, progress=False)
    pieces = split_of(ours.fit(data.X, data.y).selection_)
    run = Run(setting, pieces, np.zeros(len(data.y), dtype=bool), [], [])
    while not run.is_enough():
        if len(run.piece_timings) % 6 == 0:
            run.fit_timings.append(setting.clock.time(partial(ours.fit, data.X, data.y)))
        run.next_piece()
    checks, raw = compared(run, ours.selection_.clean_mask)
    notes = [
        f"'fine' is the transcription with {FINE_GRID.size} levels of lam, untimed: scikit-learn's "
        "100 tie label and knockoff in some rows, which then have W = 0 and cannot be kept.",
        "The transcription runs its pieces one after the other, on one BLAS thread.",
    ]
    return Row("a", "paper preset against a plain transcription", checks, raw, notes)


@dataclass
class Run:
    """Progress of the transcription through the pieces."""

    setting: Setting
    pieces: list[Piece]
    clean_mask: np.ndarray
    piece_timings: list[Timing]
    fit_timings: list[Timing]

    @property
    def done(self) -> list[Piece]:
        """Return the pieces that are done."""
        return self.pieces[: len(self.piece_timings)]

    def is_enough(self) -> bool:
        """Return whether to stop: at the number asked for, or when the time is up."""
        n, asked = len(self.done), self.setting.pieces
        if n == len(self.pieces):
            return True
        if asked is not None:
            return n >= asked
        seconds = sum(timing.seconds for timing in self.piece_timings)
        return n >= LEAST_PIECES and seconds > TRANSCRIPTION_SECONDS

    def next_piece(self) -> None:
        """Select on one more piece, on one BLAS thread: its fastest setting."""
        piece = self.pieces[len(self.done)]
        answer: list[np.ndarray] = []
        with threadpool_limits(limits=1, user_api="blas"):
            job = partial(transcribed, self.setting.data, piece, GRID)
            self.piece_timings.append(self.setting.clock.time(lambda: answer.append(job())))
        self.clean_mask[piece.index] = answer[0]


def split_of(selection: Selection) -> list[Piece]:
    """Return the pieces of a selection: other pieces would add chance differences.

    A row that only fills up a piece, and is judged in another one, is left out.
    """
    groups, row_group = selection.cut_groups, selection.cut_group
    piece, half = groups.piece[row_group], groups.half[row_group]
    members = (np.flatnonzero(piece == number) for number in np.unique(groups.piece))
    return [Piece(rows, half[rows]) for rows in members]


def transcribed(data: Data, piece: Piece, grid: Grid) -> np.ndarray:
    n_classes = int(data.y.max()) + 1
    return select_piece(data.X[piece.index], data.y[piece.index], piece.half, n_classes, grid)


def fine_transcription(data: Data, pieces: list[Piece], jobs: int) -> np.ndarray:
    """Run the transcription with finer levels; in parallel, because it is not timed."""
    answers = Parallel(n_jobs=jobs)(delayed(_fine_piece)(data, piece) for piece in pieces)
    clean = np.zeros(len(data.y), dtype=bool)
    for piece, answer in zip(pieces, answers, strict=True):
        clean[piece.index] = answer
    return clean


def _fine_piece(data: Data, piece: Piece) -> np.ndarray:
    with threadpool_limits(limits=1, user_api="blas"):
        return transcribed(data, piece, FINE_GRID)


def compared(run: Run, ours: np.ndarray) -> tuple[list[Check], dict[str, Any]]:
    """Compare both selections on the samples that both have judged."""
    data, done = run.setting.data, run.done
    seen = np.concatenate([piece.index for piece in done])
    fine = fine_transcription(data, done, run.setting.threads)
    masks = {"ours": ours, "transcription": run.clean_mask, "transcription_fine": fine}
    quality = {name: quality_on(data, mask, seen) for name, mask in masks.items()}
    # Medians on both sides: pieces differ, so the fastest one is not typical.
    whole = median(run.piece_timings) * len(run.pieces)
    ratio = whole / median(run.fit_timings)
    checks = [Check.at_least("times faster than the transcription", ratio, 80)]
    # The finer grid is what the paper's path converges to: on the usual hundred levels, label and
    # knockoff of one row in fifteen tie, and a tie keeps nothing.
    for name, limit in (("transcription_fine", 0.01), ("transcription", None)):
        for measure in ("fsr", "recall"):
            gap = abs(getattr(quality["ours"], measure) - getattr(quality[name], measure))
            levels = FINE_GRID.size if name.endswith("fine") else GRID.size
            what = f"{measure}: distance to the transcription on {levels} levels"
            checks.append(Check(what, gap) if limit is None else Check.at_most(what, gap, limit))
    raw = {
        "fit": plain(run.fit_timings),
        "pieces": plain(run.piece_timings),
        "pieces_in_all": len(run.pieces),
        "transcription_seconds_scaled": whole,
        "quality": {name: asdict(found) for name, found in quality.items()},
        "samples_compared": len(seen),
        "same_verdict": {name: float((ours == mask)[seen].mean()) for name, mask in masks.items()},
    }
    return checks, raw
