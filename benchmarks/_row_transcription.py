"""Row a: the paper preset against a plain transcription of the paper's steps."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from _clock import Timing, median
from _speed import Bench, Check, Data, Row, plain, quality_on
from kspr import KnockoffsSPR
from kspr.core.splitting import Pieces, make_pieces
from transcription import Grid, select_piece

__all__ = ["row_a"]

TRANSCRIPTION_SECONDS = 75.0
LEAST_PIECES = 16
FINE_GRID = Grid(size=400)


@dataclass(frozen=True)
class Piece:
    """One piece of the split that the library made: rows, halves, and which are judged here."""

    index: np.ndarray
    half: np.ndarray
    judged: np.ndarray


def row_a(bench: Bench) -> Row:
    """Time the paper preset against the transcription, fits and pieces in turn."""
    data = bench.data
    ours = KnockoffsSPR.paper(n_jobs=bench.threads, progress=False)
    pieces = list(split_of(ours, data))
    run = Run(bench, pieces, np.zeros(len(data.y), dtype=bool), [], [])
    while not run.is_enough():
        if len(run.piece_timings) % 6 == 0:
            run.fit_timings.append(bench.clock.time(partial(ours.fit, data.X, data.y)))
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

    bench: Bench
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
        n, asked = len(self.done), self.bench.pieces
        if n == len(self.pieces):
            return True
        if asked is not None:
            return n >= asked
        seconds = sum(timing.seconds for timing in self.piece_timings)
        return n >= LEAST_PIECES and seconds > TRANSCRIPTION_SECONDS

    def next_piece(self) -> None:
        """Select on one more piece, on one BLAS thread: its fastest bench."""
        piece = self.pieces[len(self.done)]
        answer: list[np.ndarray] = []
        with threadpool_limits(limits=1, user_api="blas"):
            job = partial(transcribed, self.bench.data, piece, Grid())
            self.piece_timings.append(self.bench.clock.time(lambda: answer.append(job())))
        self.clean_mask[piece.index[piece.judged]] = answer[0][piece.judged]


def split_of(selector: KnockoffsSPR, data: Data) -> Iterator[Piece]:
    """Yield the pieces that the selector's fit uses: other pieces would add chance differences."""
    made: list[Pieces] = []

    def watched(*arguments: Any, **options: Any) -> list[Pieces]:
        made.extend(make_pieces(*arguments, **options))
        return made

    with patch("kspr.selectors._pieces.make_pieces", watched):
        selector.fit(data.X, data.y)
    for part in made:
        for index, valid, judged in zip(part.index, part.valid, part.judged, strict=True):
            yield Piece(index[valid], np.nonzero(valid)[0], judged[valid])


def transcribed(data: Data, piece: Piece, grid: Grid) -> np.ndarray:
    n_classes = int(data.y.max()) + 1
    return select_piece(data.X[piece.index], data.y[piece.index], piece.half, n_classes, grid)


def fine_transcription(data: Data, pieces: list[Piece], jobs: int) -> np.ndarray:
    """Run the transcription with finer levels; in parallel, because it is not timed."""
    answers = Parallel(n_jobs=jobs)(delayed(_fine_piece)(data, piece) for piece in pieces)
    clean = np.zeros(len(data.y), dtype=bool)
    for piece, answer in zip(pieces, answers, strict=True):
        clean[piece.index[piece.judged]] = answer[piece.judged]
    return clean


def _fine_piece(data: Data, piece: Piece) -> np.ndarray:
    with threadpool_limits(limits=1, user_api="blas"):
        return transcribed(data, piece, FINE_GRID)


def compared(run: Run, ours: np.ndarray) -> tuple[list[Check], dict[str, Any]]:
    """Compare both selections on the samples that both have judged."""
    data, done = run.bench.data, run.done
    seen = np.concatenate([piece.index[piece.judged] for piece in done])
    fine = fine_transcription(data, done, run.bench.threads)
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
            levels = FINE_GRID.size if name.endswith("fine") else Grid().size
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
