"""Runs of digits with wrong labels, and answers to the rows that were drawn from them."""

import csv
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from kspr import KnockoffsSPR
from kspr.noise import symmetric
from kspr.runs.draws import draw_checks
from kspr.runs.run import Run
from kspr.runs.select import select_source
from kspr.runs.verify import verify_run
from kspr.sources.options import AS_FOUND, AS_SHIPPED

X, TRUTH = load_digits(return_X_y=True)


def digits_run(folder: Path, name: str = "run", rate: float = 0.2, y=None, **more) -> Run:
    """Select from digits with the labels `y`, or else with the share `rate` of wrong ones."""
    y = symmetric(TRUTH, rate, seed=1) if y is None else y
    np.savez(folder / f"{name}.npz", X=X, y=y)
    selector = more.pop("selector", KnockoffsSPR(q=0.05, progress=False))
    how = {"options": AS_FOUND, "settings": AS_SHIPPED, "command": ("kspr",)}
    return select_source(folder / f"{name}.npz", folder / name, selector, **how, **more)


def check(run: Run, n: int = 100, answered: int | None = None, **how) -> None:
    """Draw `n` rows, and answer the first ones as they truly are."""
    file = run.folder.with_name(f"{run.folder.name}-{n}-checks.csv")
    draw_checks(run.folder, file, n=n, **how)
    with file.open(newline="", encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    for entry in rows[:answered]:
        entry["true_label"] = str(TRUTH[int(entry["row"])])
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.DictWriter(opened, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    verify_run(run.folder, file)


def rows_of(path):
    """Return the lines of a CSV file, by column."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def answer(path, **changes):
    """Fill in the true labels: the given ones, but for `changes` by row."""
    rows = [{**row, "true_label": changes.get(row["row"], row["label"])} for row in rows_of(path)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
