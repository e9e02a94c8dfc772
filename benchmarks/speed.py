"""Measure speed, growth, memory and a peer, each against its target: ``make bench``.

Every ratio is taken inside one run, from alternating repeats in calm moments, so that other
work on the machine meets both sides of it or neither. The table goes to the screen, and every
number behind it to ``benchmarks/results/speed.json``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from _clock import Clock, Timing, calm, fastest, median
from _common import NOISE_RATE, QUICK_ROWS, Check, Data, Results, Row, load_data, machine
from _sizes import million_rows
from kspr import KnockoffsSPR
from kspr.core.metrics import SelectionQuality, selection_quality
from kspr.core.splitting import Pieces, make_pieces
from kspr.data.noise import symmetric
from transcription import Grid, select_piece

HERE = Path(__file__).resolve().parent
TRANSCRIPTION_SECONDS = 75.0
LEAST_PIECES = 16
FINE_GRID = Grid(size=400)


@dataclass(frozen=True)
class Setting:
    """What all rows share."""

    data: Data
    seed: int
    threads: int
    pieces: int | None
    repeats: int
    clock: Clock

    def unsplit(self) -> KnockoffsSPR:
        """Return the selector of rows b and c."""
        return KnockoffsSPR(q=0.05, reduction=64, progress=False)


@dataclass(frozen=True)
class Piece:
    """One piece of the split that the library made: rows, halves, and which are judged here."""

    index: np.ndarray
    half: np.ndarray
    judged: np.ndarray


def row_a(setting: Setting) -> Row:
    """Time the paper preset against the transcription, in turn with its pieces."""
    data = setting.data
    ours = KnockoffsSPR.paper(n_jobs=setting.threads, progress=False)
    pieces = list(split_of(ours, data))
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
    """The transcription's way through the pieces."""

    setting: Setting
    pieces: list[Piece]
    clean_mask: np.ndarray
    piece_timings: list[Timing]
    fit_timings: list[Timing]

    @property
    def done(self) -> list[Piece]:
        """Return the pieces that it has seen."""
        return self.pieces[: len(self.piece_timings)]

    def is_enough(self) -> bool:
        """Say whether to stop: at the number asked for, or when the time is up."""
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
            job = partial(transcribed, self.setting.data, piece, Grid())
            self.piece_timings.append(self.setting.clock.time(lambda: answer.append(job())))
        self.clean_mask[piece.index[piece.judged]] = answer[0][piece.judged]


def split_of(selector: KnockoffsSPR, data: Data) -> Iterator[Piece]:
    """Yield the pieces that the selector's fit uses: on others, luck would blur the comparison."""
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
    """Run the transcription once more with finer levels, in parallel as nobody times it."""
    answers = Parallel(n_jobs=jobs)(delayed(_fine_piece)(data, piece) for piece in pieces)
    clean = np.zeros(len(data.y), dtype=bool)
    for piece, answer in zip(pieces, answers, strict=True):
        clean[piece.index[piece.judged]] = answer[piece.judged]
    return clean


def _fine_piece(data: Data, piece: Piece) -> np.ndarray:
    with threadpool_limits(limits=1, user_api="blas"):
        return transcribed(data, piece, FINE_GRID)


def compared(run: Run, ours: np.ndarray) -> tuple[list[Check], dict[str, Any]]:
    """Judge both selections on the samples that both have judged."""
    data, done = run.setting.data, run.done
    seen = np.concatenate([piece.index[piece.judged] for piece in done])
    fine = fine_transcription(data, done, run.setting.threads)
    masks = {"ours": ours, "transcription": run.clean_mask, "transcription_fine": fine}
    quality = {name: quality_on(data, mask, seen) for name, mask in masks.items()}
    # Medians on both sides: pieces differ, so the quickest of them does not stand for all.
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


def plain(timings: list[Timing]) -> dict[str, Any]:
    """Return timings for the file: all of them, and how many were undisturbed."""
    return {
        "seconds": [timing.seconds for timing in timings],
        "cpu_seconds": [timing.cpu for timing in timings],
        "cores_of_others": [timing.others for timing in timings],
        "used": len(calm(timings)),
    }


def quality_on(data: Data, mask: np.ndarray, chosen: np.ndarray) -> SelectionQuality:
    return selection_quality(mask[chosen], data.truly_clean[chosen])


def row_b(setting: Setting) -> Row:
    """Time the unsplit fit against one X'X, the least that a second-order method must do."""
    X, y = setting.data.X, setting.data.y
    timings = setting.clock.alternate(
        2 * setting.repeats,
        product=lambda: X.T @ X,
        fit=partial(setting.unsplit().fit, X, y),
    )
    checks = [Check.at_most("times one X'X", slower(timings, "fit", "product"), 12)]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("b", "unsplit, 64 dimensions", checks, raw)


def slower(timings: dict[str, list[Timing]], what: str, base: str) -> float:
    return fastest(timings[what]) / fastest(timings[base])


def row_c(setting: Setting) -> Row:
    """Grow the rows eightfold, and the classes tenfold."""
    data, X = setting.data, setting.data.X
    rng = np.random.default_rng(setting.seed)
    y_fine = symmetric(finer_classes(data), NOISE_RATE, setting.seed)
    large, y_large = tiled(X, 8, rng), np.tile(data.y, 8)
    timings = setting.clock.alternate(
        setting.repeats,
        base=partial(setting.unsplit().fit, X, data.y),
        rows=partial(setting.unsplit().fit, large, y_large),
        classes=partial(setting.unsplit().fit, X, y_fine),
    )
    checks = [
        Check.at_most("8 x the rows: times slower", slower(timings, "rows", "base"), 9),
        Check.at_most("100 classes: times slower", slower(timings, "classes", "base"), 4),
    ]
    raw = {name: plain(found) for name, found in timings.items()}
    return Row("c", "growth, unsplit, 64 dimensions", checks, raw)


def tiled(X: np.ndarray, times: int, rng: np.random.Generator) -> np.ndarray:
    """Return `X` several times over, jittered so that no two rows are equal."""
    jitter = np.float32(0.05 * X[:1000].std())
    large = np.empty((times * len(X), X.shape[1]), dtype=X.dtype)
    for part in np.split(large, times):
        rng.standard_normal(out=part, dtype=np.float32)
        part *= jitter
        part += X
    return large


def finer_classes(data: Data) -> np.ndarray:
    """Cut every class into ten by the order of its leading feature."""
    fine = np.empty_like(data.y_true)
    for c in np.unique(data.y_true):
        members = np.flatnonzero(data.y_true == c)
        rank = np.argsort(np.argsort(data.X[members, 0]))
        fine[members] = 10 * c + 10 * rank // len(members)
    return fine


def row_d(setting: Setting) -> Row:
    """Measure the peak of one fit in a fresh process, X itself included."""
    raw: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "X.npy", setting.data.X)
        np.save(Path(folder) / "y.npy", setting.data.y)
        for preset in ("default", "paper"):
            raw[preset] = peak_memory(Path(folder), preset, setting.threads)
    checks = [
        Check.at_most(
            f"{preset}: peak, in bytes of X", 1 + found["growth_bytes"] / found["x_bytes"], 3
        )
        for preset, found in raw.items()
    ]
    return Row("d", "peak memory of a fit", checks, raw)


def peak_memory(folder: Path, preset: str, threads: int) -> dict[str, Any]:
    script, files = HERE / "_peak_memory.py", (folder / "X.npy", folder / "y.npy")
    command = [sys.executable, str(script), preset, *map(str, files), str(threads)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


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


ROWS: dict[str, Callable[[Setting], Row]] = {
    "a": row_a,
    "b": row_b,
    "c": row_c,
    "d": row_d,
    "e": row_e,
    "f": lambda setting: million_rows(setting.seed, quick=len(setting.data.X) <= QUICK_ROWS),
}


def show(results: Results, data: Data, about: dict[str, Any], *, quick: bool) -> None:
    """Print every row that the file has."""
    console = Console()
    console.print(f"{data.source}: {data.X.shape[0]:,} x {data.X.shape[1]}, 40 % symmetric noise")
    versions = ", ".join(f"{name} {number}" for name, number in about["versions"].items())
    console.print(f"{about['cpu']}, {about['cores']} cores, {versions}")
    if quick:
        console.print("A part of the data only: the targets are meant for all of it.")
    table = Table("", "what", "measured", "target", "met")
    for name in (name for name in ROWS if name in results):
        row = results.row(name)
        table.add_section()
        table.add_row(name, f"[bold]{row['title']}[/bold]", "", "", "")
        for check in row["checks"]:
            met = {True: "yes", False: "[red]NO[/red]", None: ""}[check["met"]]
            table.add_row("", check["what"], f"{check['value']:.4g}", check["target"], met)
    console.print(table)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="a,b,c,d,e,f", help="which rows to measure")
    parser.add_argument("--quick", action="store_true", help="a small part of the data, to try")
    parser.add_argument("--resume", action="store_true", help="skip rows that the file has")
    parser.add_argument("--out", type=Path, default=HERE / "results" / "speed.json")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="BLAS threads")
    parser.add_argument("--pieces", type=int, help="pieces that the transcription runs (row a)")
    parser.add_argument("--repeats", type=int, default=4, help="repeats of each timing")
    parser.add_argument(
        "--patience", type=float, default=300, help="seconds to wait for calm moments, in all"
    )
    arguments = parser.parse_args()
    arguments.rows = arguments.rows.split(",")
    unknown = [name for name in arguments.rows if name not in ROWS]
    if unknown:
        parser.error(f"--rows must name some of {','.join(ROWS)}, got {','.join(unknown)}")
    if arguments.pieces is not None and arguments.pieces < 8:
        parser.error(f"--pieces must be at least 8, got {arguments.pieces}")
    return arguments


def main() -> None:
    arguments = read_arguments()
    data = load_data(arguments.seed, quick=arguments.quick)
    about = machine(arguments.threads)
    conditions = {
        "machine": about,
        "data": {"source": data.source, "shape": list(data.X.shape), "noise": NOISE_RATE},
        "seed": arguments.seed,
    }
    results = Results(arguments.out, conditions)
    setting = Setting(
        data,
        arguments.seed,
        arguments.threads,
        arguments.pieces,
        arguments.repeats,
        Clock(arguments.patience),
    )
    with threadpool_limits(limits=arguments.threads, user_api="blas"):
        for name in arguments.rows:
            if arguments.resume and name in results:
                continue
            start = time.perf_counter()
            results.add(ROWS[name](setting), time.perf_counter() - start)
    show(results, data, about, quick=arguments.quick)


if __name__ == "__main__":
    main()
