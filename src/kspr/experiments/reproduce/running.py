"""Run the trials of a recipe, and store each as soon as it is finished.

A trial depends on its own description only. So the result does not depend on how many trials run
at once, in which order, or whether the run was stopped and continued.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from kspr._files import read_json, write_json
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.experiments.fingerprint import provenance
from kspr.experiments.reproduce.data import absent, describe, prepare
from kspr.experiments.reproduce.planning import plan, require_packages, trial_fingerprint
from kspr.experiments.reproduce.recipes import Recipe, Scale
from kspr.experiments.reproduce.reproduction import Reproduction, Trial
from kspr.experiments.reproduce.trials import TIMED, TrialSpec, compute, module_of

__all__ = ["reproduce"]


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
    """Run the trials that `out` does not hold yet, and return all trials.

    The result is stored as ``<recipe>-<scale>.json`` in `out`, single trials in ``out/trials``. A
    run that is interrupted loses the trials that were running, and nothing else.
    """
    if jobs < 1:
        raise InputError(f"jobs must be 1 or more, got {jobs}.")
    chosen = recipe.scale(scale)
    # Now: not after an hour, and not from several workers at once.
    require_packages(recipe, scale)
    lacking = _lacking(recipe, scale, chosen, folder)
    specs = [spec for spec in plan(recipe, scale, seeds, folder) if spec.data not in lacking]
    named = [(trial_fingerprint(spec), spec) for spec in specs]
    result_file, store = out / f"{recipe.name}-{scale}.json", out / "trials"
    _unpack(result_file, store)
    # Equal trials have one name, and are run once.
    _run_missing(dict(named), store, jobs, f"{recipe.name} {scale}", progress)
    result = Reproduction(
        recipe=recipe.name,
        scale=scale,
        command=tuple(command),
        machine=provenance(module_of(chosen.kind)),
        data={
            name: describe(source) for name, source in chosen.data.items() if name not in lacking
        },
        lacking=lacking,
        trials=tuple(_stored_trial(name, spec, store) for name, spec in named),
    )
    write_json(result_file, asdict(result))
    return result


def _unpack(result_file: Path, store: Path) -> None:
    """Write the trials of an earlier result as single files, where finished ones are looked for."""
    # A result may have been copied or committed without its folder of trials.
    stored = read_json(result_file) or {"trials": []}
    for trial in stored["trials"]:
        path = store / f"{trial['fingerprint']}.json"
        if read_json(path) is None:
            kept = {name: trial[name] for name in ("values", "seconds", "when", "source")}
            write_json(path, kept)


def _lacking(recipe: Recipe, scale: str, chosen: Scale, folder: Path | None) -> dict[str, str]:
    """Return the data sets that are not here, with the reason; raise if none is here."""
    found = {name: absent(source, folder) for name, source in chosen.data.items()}
    lacking = {name: reason for name, reason in found.items() if reason is not None}
    if len(lacking) == len(chosen.data):
        reason = next(iter(lacking.values()))
        raise InputError(
            f"{recipe.name} at scale {scale} cannot be run: {reason} `--scale smoke` runs anywhere."
        )
    return lacking


def _run_missing(
    specs: Mapping[str, TrialSpec], store: Path, jobs: int, title: str, progress: ProgressMode
) -> None:
    missing = [name for name in specs if read_json(store / f"{name}.json") is None]
    # Trials that measure time run last and one at a time, when no other trial is running.
    timed = [name for name in missing if specs[name].kind in TIMED]
    others = [name for name in missing if specs[name].kind not in TIMED]
    done = len(specs) - len(missing)
    # In this process, so that two workers do not embed the same images.
    for name in missing:
        prepare(specs[name].source, specs[name].folder)
    try:
        with Progress(progress, title, len(missing)) as bar:
            for workers, names in ((jobs, others), (1, timed)):
                for _ in _finished([(specs[name], store, name) for name in names], workers):
                    done += 1
                    bar.advance()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"interrupted; {done} of {len(specs)} trials are kept in {store}. The same command "
            "continues from there."
        ) from stop


def _finished(work: list[tuple[TrialSpec, Path, str]], workers: int) -> Iterator[str]:
    """Yield the name of each trial as soon as it is finished."""
    # Without a pool, errors and interrupts arrive directly.
    if workers == 1 or len(work) < 2:
        yield from (_run_one(*item) for item in work)
        return
    pool = Parallel(
        n_jobs=min(workers, len(work)),
        # A trial counts when it is done, not when slower ones before it are.
        return_as="generator_unordered",
        initializer=_begin_worker,
        initargs=(os.getpid(),),
    )
    yield from pool(delayed(_run_one)(*item) for item in work)


def _begin_worker(parent: int) -> None:
    """Let a worker ignore Ctrl-C, which the main process handles, and end when that has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """Wait until the process `parent` is gone, killed or not, and end this one."""
    while os.getppid() == parent:
        time.sleep(0.5)
    # All threads, at once: a trial that is not finished is run again.
    os._exit(1)


def _run_one(spec: TrialSpec, store: Path, name: str) -> str:
    """Run a trial, in whichever process this is, and store its values; return its name."""
    # Training settings have no such entry: it asks for a folder to continue from.
    if spec.settings.get("checkpoints"):
        settings = {k: v for k, v in spec.settings.items() if k != "checkpoints"}
        spec = replace(spec, settings=settings, work=store / name)
    start = time.perf_counter()
    # The number of threads changes the last digits of sums, so it must not follow --jobs.
    with threadpool_limits(None if spec.kind in TIMED else 1):
        values = compute(spec)
    seconds = round(time.perf_counter() - start, 2)
    write_json(
        store / f"{name}.json",
        {"values": values, "seconds": seconds, **provenance(module_of(spec.kind))},
    )
    return name


def _stored_trial(name: str, spec: TrialSpec, store: Path) -> Trial:
    kept = read_json(store / f"{name}.json")
    return Trial(
        data=spec.data,
        noise=spec.noise,
        variant=spec.variant_name,
        seed=spec.seed,
        values=kept["values"],
        seconds=kept["seconds"],
        when=kept["when"],
        source=kept["source"],
        fingerprint=name,
    )
