"""Run the trials of a recipe that are not stored yet, and store each when it is done.

A trial depends on its own description only, and is stored under it. So the result does not depend
on how many trials run at once, in which order, or whether the run was stopped and continued. A
stored trial says which version and commit of this package computed it.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import chain
from multiprocessing import current_process
from pathlib import Path
from typing import Any, NamedTuple

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from kspr._files import read_json, write_json
from kspr._packages import CHANGED, machine, require, source_commit
from kspr._progress import Progress, ProgressMode, say
from kspr.errors import InputError, KsprError
from kspr.experiments.reproduce.data import describe, prepare
from kspr.experiments.reproduce.recipes import Recipe
from kspr.experiments.reproduce.reproduction import Reproduction, Trial
from kspr.experiments.reproduce.trials import (
    FUNCTIONS,
    TIMED,
    Part,
    TrialSpec,
    absent_data,
    forecast,
    name_of,
    packages_of,
    plan,
)

_STORED = ("description", "values", "seconds", "when", "version", "commit", "machine")
"""Entries of a stored trial."""
_PATIENCE = 60.0
"""Seconds of work that are announced."""


def reproduce(
    recipe: Recipe,
    scale: str,
    out: Path,
    *,
    seeds: int | None = None,
    part: Part | None = None,
    jobs: int | None = None,
    devices: Sequence[str] = (),
    again: bool = False,
    folder: Path | None = None,
    command: Sequence[str] = (),
    progress: ProgressMode = "auto",
) -> Reproduction:
    """Run the trials of `part` that `out` does not hold yet, and return all that it then holds.

    The result is stored as ``<recipe>-<scale>.json`` in `out`, single trials in ``out/trials``. A
    run that is interrupted loses the trials that were running, and nothing else. Folders of other
    parts merge by being copied into one. A trial that fails is named with its reason, and is run
    again by the next call. With `again`, stored trials of another version or commit of this
    package are run anew. `jobs` trials run at once (by default one, or one for each of `devices`).
    """
    fewest = max(1, len(devices))
    jobs = fewest if jobs is None else jobs
    if jobs < fewest:
        raise InputError(f"jobs must be {fewest} or more, got {jobs}: a device needs a job.")
    chosen = recipe.scale(scale)
    # Now: not after an hour, and not from several workers at once.
    for module, extra in packages_of(recipe, chosen).items():
        require(module, f"{recipe.name} at scale {scale}", f"'knockoffs-spr[{extra}]'")
    lacking = absent_data(chosen, folder)
    if len(lacking) == len(chosen.data):
        raise InputError(
            f"{recipe.name} at scale {scale} cannot be run: {next(iter(lacking.values()))} "
            "`--scale smoke` runs anywhere."
        )
    specs = [spec for spec in plan(recipe, scale, seeds, folder) if spec.data not in lacking]
    _check(recipe.name, specs, devices)
    result_file, store = out / f"{recipe.name}-{scale}.json", out / "trials"
    _unpack(result_file, store)
    about = machine("numpy", "scipy", "scikit-learn", "knockoffs-spr") | {"commit": source_commit()}
    origin = {
        "version": about["versions"]["knockoffs-spr"],
        "commit": about["commit"],
        "machine": f"{about['cpu']}, {about['cores']} cores",
    }
    files = {spec: store / f"{name_of(spec.description())}.json" for spec in specs}
    # Equal trials have one file, and are run once.
    unique = {files[spec]: spec for spec in (part or Part()).of(specs, recipe)}
    missing = {file: spec for file, spec in unique.items() if _is_due(file, origin, again)}
    known = [(spec, kept["seconds"]) for spec, file in files.items() if (kept := read_json(file))]
    failed = _run_missing(missing, known, origin, jobs, devices, f"{recipe.name} {scale}", progress)
    result = Reproduction(
        recipe=recipe.name,
        scale=scale,
        command=tuple(command),
        machine={**about, "when": _now()},
        data={name: describe(chosen.data[name]) for name in chosen.data if name not in lacking},
        lacking=lacking,
        trials=tuple(
            Trial(spec.data, spec.noise, spec.variant_name, spec.seed, **kept)
            for spec, file in files.items()
            if (kept := read_json(file)) is not None
        ),
        planned=len(specs),
        failed=failed,
    )
    if failed and not result.trials:
        name, reason = next(iter(failed.items()))
        raise InputError(f"No trial of {recipe.name} could be run. {name}: {reason}")
    write_json(result_file, asdict(result))
    return result


def _check(recipe: str, specs: Sequence[TrialSpec], devices: Sequence[str]) -> None:
    """Raise for a device or a file of weights that is not here: now, not after decoding."""
    if devices and specs[0].kind != "train":
        raise InputError(f"device goes with recipes that train networks; {recipe} does not.")
    for device in devices:
        # Imported on demand: only training needs torch.
        from kspr.models.device import pick_device

        pick_device(device)
    for name in {spec.settings.get("weights", "pretrained") for spec in specs}:
        if name != "pretrained" and not Path(name).is_file():
            raise InputError(
                f"There is no file {name} in {Path.cwd()}, from whose weights the networks of this "
                "scale begin. Put one there: torchvision's weights of this network, for example."
            )


def _unpack(result_file: Path, store: Path) -> None:
    """Write the trials of an earlier result as single files, where finished ones are looked for."""
    # A result may have been copied or committed without its folder of trials.
    for trial in (read_json(result_file) or {"trials": []})["trials"]:
        kept = {name: trial[name] for name in _STORED if name in trial}
        # Trials of before descriptions were stored cannot be told from those of another recipe.
        if len(kept) < len(_STORED):
            continue
        file = store / f"{name_of(kept['description'])}.json"
        if read_json(file) is None:
            write_json(file, kept)


def _is_due(file: Path, origin: Mapping[str, Any], again: bool) -> bool:
    """Return whether a trial is to be run: it is not stored, or stored by other code."""
    kept = read_json(file)
    if kept is None or not again:
        return kept is None
    # Two states of changed sources have the same commit.
    changed = str(origin["commit"]).endswith(CHANGED)
    return changed or any(kept[name] != origin[name] for name in ("version", "commit"))


def _run_missing(
    missing: Mapping[Path, TrialSpec],
    known: Sequence[tuple[TrialSpec, float]],
    origin: Mapping[str, Any],
    jobs: int,
    devices: Sequence[str],
    title: str,
    progress: ProgressMode,
) -> dict[str, str]:
    """Run trials and store each in its file; return those that failed, with the reason.

    Trials that measure time run last and alone.
    """
    if not missing:
        return {}
    work = [(spec, file, origin, devices) for file, spec in missing.items()]
    parts = [[w for w in work if (w[0].kind in TIMED) == timed] for timed in (False, True)]
    done, failed = 0, {}
    # In this process, so that two workers do not embed the same images.
    for spec in missing.values():
        # What fails here fails in the trial again, which is then named; the others go on.
        with suppress(Exception):
            prepare(spec.source, spec.folder)
    _announce(title, list(missing.values()), known, jobs, progress)
    try:
        with Progress(progress, title, len(missing)) as bar:
            for ran in chain(_finished(parts[0], jobs), _finished(parts[1], 1)):
                if ran.failure is not None:
                    failed[missing[ran.file].title] = ran.failure
                elif not known:
                    known = [(missing[ran.file], ran.seconds)]
                    left = [spec for file, spec in missing.items() if file != ran.file]
                    _announce(title, left, known, jobs, progress)
                done += 1
                bar.advance()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"interrupted; {done - len(failed)} of {len(missing)} trials were run and are kept in "
            f"{next(iter(missing)).parent}. The same command continues from there."
        ) from stop
    return failed


def _announce(
    title: str,
    missing: Sequence[TrialSpec],
    known: Sequence[tuple[TrialSpec, float]],
    jobs: int,
    progress: ProgressMode,
) -> None:
    """Say how long the missing trials will take, by the seconds of known ones, if it is long."""
    if not known:
        return
    seconds = forecast(missing, known) / min(jobs, max(1, len(missing)))
    if seconds > _PATIENCE:
        by = "the first trial" if len(known) == 1 else f"{len(known)} stored trials"
        say(
            progress,
            f"{title}: {len(missing)} trials to run, about {seconds / 60:,.0f} minutes with {jobs} "
            f"at a time, by the seconds of {by}.",
        )


class _Ran(NamedTuple):
    """A trial that was run, with what it took or why it failed."""

    file: Path
    seconds: float
    failure: str | None = None


def _finished(work: Sequence[tuple[Any, ...]], workers: int) -> Iterator[_Ran]:
    """Run each trial, and yield as soon as one is finished."""
    # Without a pool, errors and interrupts arrive directly.
    if workers == 1 or len(work) < 2:
        for item in work:
            yield _run_one(*item)
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


def _run_one(
    spec: TrialSpec, file: Path, origin: Mapping[str, Any], devices: Sequence[str]
) -> _Ran:
    """Run a trial, in whichever process this is, and store its values; or say why it failed."""
    description = spec.description()
    device = devices[_worker_number() % len(devices)] if devices else None
    # Training settings have no such entry: it asks for a folder to continue from.
    settings = dict(spec.settings)
    # By commit: a trial that other code has begun must not be finished by this one.
    code = origin["commit"] or origin["version"]
    work = file.with_name(f"{file.stem}-{code}") if settings.pop("checkpoints", False) else None
    running = replace(spec, device=device, settings=settings, work=work)
    start = time.perf_counter()
    try:
        # The number of threads changes the last digits of sums, so it must not follow --jobs.
        with threadpool_limits(None if spec.kind in TIMED else 1):
            values = compute(running)
    # Whatever it is: hundreds of other trials must not end with this one.
    except Exception as error:
        kind = "" if isinstance(error, KsprError) else f"{type(error).__name__}: "
        return _Ran(file, 0.0, f"{kind}{error}")
    seconds = round(time.perf_counter() - start, 2)
    stored = {"description": description, "values": values, "seconds": seconds, "when": _now()}
    where = origin["machine"] if device is None else f"{origin['machine']}, {device}"
    write_json(file, {**stored, **origin, "machine": where})
    return _Ran(file, seconds)


def _worker_number() -> int:
    """Return the number of this worker process; those of one pool are consecutive."""
    number = current_process().name.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def _train(spec: TrialSpec) -> Mapping[str, Any]:
    # Imported on demand: only training needs torch.
    from kspr.experiments.reproduce.training import train

    return train(spec)


KINDS = {**FUNCTIONS, "train": _train}
"""Function of each kind of trial."""


def compute(spec: TrialSpec) -> dict[str, Any]:
    """Run one trial; return its values, ready for JSON."""
    if spec.kind not in KINDS:
        raise InputError(f"There is no kind of trial {spec.kind!r}; there are {', '.join(KINDS)}.")
    return {name: plain(value) for name, value in KINDS[spec.kind](spec).items()}


def plain(value: Any) -> Any:
    """Return `value` as JSON can hold it: floats to six digits, infinite ones and nan as None."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        # The comparison is False for nan, too.
        return float(f"{value:.6g}") if abs(value) < float("inf") else None
    return value


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
