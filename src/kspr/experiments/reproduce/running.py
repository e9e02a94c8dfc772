"""Run a recipe: its cells side by side, each kept from the moment it is there.

A cell is one variant on one data set with one noise and one seed. It depends on nothing but its
own description, so that it does not matter how many run at once, in which order, or in how many
sittings.
"""

import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from kspr._files import read_json, write_json
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.experiments.fingerprint import fingerprint, provenance
from kspr.experiments.reproduce.data import absent, describe, identity, prepare
from kspr.experiments.reproduce.recipes import Recipe, Scale, Variant
from kspr.experiments.reproduce.reproduction import Cell, Reproduction
from kspr.experiments.reproduce.trials import TIMED, Job, compute, module_of

__all__ = ["Planned", "plan", "reproduce"]


@dataclass(frozen=True)
class Planned:
    """A cell before it is run."""

    kind: str
    data: str
    noise: str
    variant: str
    job: Job

    def fingerprint(self) -> str:
        """Return the name under which this cell is kept."""
        job = self.job
        return fingerprint(
            {
                "kind": self.kind,
                "source": dict(job.source),
                "files": identity(job.source, job.folder),
                "noise": job.noise,
                "variant": asdict(job.variant),
                "settings": dict(job.settings),
                "seed": job.seed,
            },
            module_of(self.kind),
        )


def plan(
    recipe: Recipe, scale: str, seeds: int | None = None, folder: Path | None = None
) -> list[Planned]:
    """Return the cells of a recipe at a scale, the quick answers to all questions first."""
    chosen = recipe.scale(scale)
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}.")
    variants = list(chosen.variants or recipe.variants)
    return [
        Planned(
            chosen.kind,
            data,
            noise,
            variant,
            _job(source, noise, recipe.variants[variant], chosen, seed, folder),
        )
        for seed in range(seeds or chosen.seeds)
        for data, source in chosen.data.items()
        for noise in chosen.noises or recipe.noises
        for variant in variants
        if recipe.variants[variant].of is None
    ]


def _job(
    source: Mapping[str, Any],
    noise: str,
    variant: Variant,
    scale: Scale,
    seed: int,
    folder: Path | None,
) -> Job:
    """Return the cell's orders; a data set may have settings of its own."""
    described = {name: value for name, value in source.items() if name != "settings"}
    settings = {**scale.settings, **source.get("settings", {})}
    return Job(described, noise, variant, settings, seed, folder)


def reproduce(
    recipe: Recipe,
    scale: str,
    out: Path,
    *,
    seeds: int | None = None,
    jobs: int = 1,
    folder: Path | None = None,
    command: Sequence[str] = (),
    progress: ProgressMode = "auto",
) -> Reproduction:
    """Run the cells that `out` does not hold yet, and return all of them.

    The result is kept as ``<recipe>-<scale>.json`` in `out`, its cells in ``out/cells``. A run
    that is interrupted loses the cells it was at, and nothing else.
    """
    if jobs < 1:
        raise InputError(f"jobs must be 1 or more, got {jobs}.")
    chosen = recipe.scale(scale)
    lacking = _lacking(recipe, scale, chosen, folder)
    cells = [cell for cell in plan(recipe, scale, seeds, folder) if cell.data not in lacking]
    named = [(cell.fingerprint(), cell) for cell in cells]
    _unpack(out / f"{recipe.name}-{scale}.json", out / "cells")
    _run(dict(named), out / "cells", jobs, f"{recipe.name} {scale}", progress)
    result = Reproduction(
        recipe=recipe.name,
        scale=scale,
        command=tuple(command),
        machine=provenance(module_of(chosen.kind)),
        data={
            name: describe(source) for name, source in chosen.data.items() if name not in lacking
        },
        lacking=lacking,
        cells=tuple(_read(name, cell, out / "cells") for name, cell in named),
    )
    write_json(out / f"{recipe.name}-{scale}.json", asdict(result))
    return result


def _unpack(result: Path, folder: Path) -> None:
    """Put the cells of an earlier result back where single ones are looked for."""
    stored = read_json(result) or {"cells": []}
    for cell in stored["cells"]:
        path = folder / f"{cell['fingerprint']}.json"
        if read_json(path) is None:
            kept = {name: cell[name] for name in ("values", "seconds", "when", "source")}
            write_json(path, kept)


def _lacking(recipe: Recipe, scale: str, chosen: Scale, folder: Path | None) -> dict[str, str]:
    """Return why data sets cannot be had here; refuse if none can."""
    found = {name: absent(source, folder) for name, source in chosen.data.items()}
    lacking = {name: reason for name, reason in found.items() if reason is not None}
    if len(lacking) == len(chosen.data):
        reason = next(iter(lacking.values()))
        raise InputError(
            f"{recipe.name} at scale {scale} cannot be run: {reason} `--scale smoke` runs anywhere."
        )
    return lacking


def _run(
    store: Mapping[str, Planned], folder: Path, jobs: int, title: str, progress: ProgressMode
) -> None:
    missing = [name for name in store if read_json(folder / f"{name}.json") is None]
    timed = [name for name in missing if store[name].kind in TIMED]
    others = [name for name in missing if store[name].kind not in TIMED]
    done = len(store) - len(missing)
    for name in missing:
        prepare(store[name].job.source, store[name].job.folder)
    try:
        with Progress(progress, title, len(missing)) as bar:
            for workers, names in ((jobs, others), (1, timed)):
                for _ in _finished([(store[name], folder, name) for name in names], workers):
                    done += 1
                    bar.advance()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"interrupted; {done} of {len(store)} cells are kept in {folder}. The same command "
            "goes on from there."
        ) from stop


def _finished(work: list[tuple[Planned, Path, str]], workers: int) -> Iterator[str]:
    """Yield the name of each cell as it is done."""
    if workers == 1 or len(work) < 2:
        yield from (_solve(*item) for item in work)
        return
    pool = Parallel(
        n_jobs=min(workers, len(work)), return_as="generator_unordered", initializer=_deaf
    )
    yield from pool(delayed(_solve)(*item) for item in work)


def _deaf() -> None:
    """Leave an interrupt to the process that started this one: it ends its workers, quietly."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _solve(cell: Planned, folder: Path, name: str) -> str:
    """Compute a cell and keep it, in whichever process this is; return its name."""
    job = cell.job
    if job.settings.get("checkpoints"):
        settings = {k: v for k, v in job.settings.items() if k != "checkpoints"}
        job = replace(job, settings=settings, work=folder / name)
    start = time.perf_counter()
    # How many threads there are changes the last digits, and would so make jobs matter.
    with threadpool_limits(None if cell.kind in TIMED else 1):
        values = compute(cell.kind, job)
    seconds = round(time.perf_counter() - start, 2)
    write_json(
        folder / f"{name}.json",
        {"values": values, "seconds": seconds, **provenance(module_of(cell.kind))},
    )
    return name


def _read(name: str, cell: Planned, folder: Path) -> Cell:
    kept = read_json(folder / f"{name}.json")
    return Cell(
        data=cell.data,
        noise=cell.noise,
        variant=cell.variant,
        seed=cell.job.seed,
        values=kept["values"],
        seconds=kept["seconds"],
        when=kept["when"],
        source=kept["source"],
        fingerprint=name,
    )
