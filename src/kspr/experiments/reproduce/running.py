"""Plan the trials of a recipe, run those that are not stored yet, and store each when it is done.

A trial depends on its own description only, and is stored under it. So the result does not depend
on how many trials run at once, in which order, or whether the run was stopped and continued. A
stored trial says which version and commit of this package computed it.
"""

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from kspr._files import read_json, write_json
from kspr._packages import CHANGED, is_installed, machine, require, source_commit
from kspr._progress import Progress, ProgressMode
from kspr.errors import InputError
from kspr.experiments.reproduce.data import absent, describe, prepare
from kspr.experiments.reproduce.recipes import SCALES, Recipe, Scale, load_recipe, recipe_names
from kspr.experiments.reproduce.reproduction import Reproduction, Trial
from kspr.experiments.reproduce.trials import FUNCTIONS, TIMED, TrialSpec, name_of

__all__ = ["KINDS", "ListedRecipe", "ListedScale", "compute", "list_recipes", "plan", "reproduce"]

_STORED = ("description", "values", "seconds", "when", "version", "commit", "machine")
"""Entries of a stored trial."""
KINDS = (*FUNCTIONS, "train")
"""Kinds of trial."""


def plan(
    recipe: Recipe, scale: str, seeds: int | None = None, folder: Path | None = None
) -> list[TrialSpec]:
    """Return the trials of a recipe at a scale, ordered by seed.

    A run that is stopped early so has every row of the table once before any row twice.
    """
    chosen = recipe.scale(scale)
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}.")
    return [
        TrialSpec(
            kind=chosen.kind,
            data=data,
            # Settings that a source brings are those of the training.
            source={name: value for name, value in source.items() if name != "settings"},
            noise=noise,
            variant_name=name,
            variant=recipe.variants[name],
            settings={**chosen.settings, **source.get("settings", {})},
            seed=seed,
            folder=folder,
        )
        for seed in range(seeds or chosen.seeds)
        for data, source in chosen.data.items()
        for noise in chosen.noises
        for name in chosen.variants
        # A variant that is read from another one needs no trial of its own.
        if recipe.variants[name].of is None
    ]


def reproduce(
    recipe: Recipe,
    scale: str,
    out: Path,
    *,
    seeds: int | None = None,
    jobs: int = 1,
    again: bool = False,
    folder: Path | None = None,
    command: Sequence[str] = (),
    progress: ProgressMode = "auto",
) -> Reproduction:
    """Run the trials that `out` does not hold yet, and return all trials.

    The result is stored as ``<recipe>-<scale>.json`` in `out`, single trials in ``out/trials``. A
    run that is interrupted loses the trials that were running, and nothing else. With `again`,
    stored trials of another version or commit of this package are run anew.
    """
    if jobs < 1:
        raise InputError(f"jobs must be 1 or more, got {jobs}.")
    chosen = recipe.scale(scale)
    # Now: not after an hour, and not from several workers at once.
    for module, extra in _packages_of(recipe, chosen).items():
        require(module, f"{recipe.name} at scale {scale}", f"'knockoffs-spr[{extra}]'")
    lacking = _lacking(recipe, scale, chosen, folder)
    specs = [spec for spec in plan(recipe, scale, seeds, folder) if spec.data not in lacking]
    result_file, store = out / f"{recipe.name}-{scale}.json", out / "trials"
    _unpack(result_file, store)
    about = machine("numpy", "scipy", "scikit-learn", "knockoffs-spr") | {"commit": source_commit()}
    origin = {
        "version": about["versions"]["knockoffs-spr"],
        "commit": about["commit"],
        "machine": f"{about['cpu']}, {about['cores']} cores",
    }
    files = [store / f"{name_of(spec.description())}.json" for spec in specs]
    # Equal trials have one file, and are run once.
    unique = dict(zip(files, specs, strict=True))
    missing = {file: spec for file, spec in unique.items() if _is_due(file, origin, again)}
    _run_missing(missing, origin, len(unique), jobs, f"{recipe.name} {scale}", progress)
    result = Reproduction(
        recipe=recipe.name,
        scale=scale,
        command=tuple(command),
        machine={**about, "when": _now()},
        data={
            name: describe(source) for name, source in chosen.data.items() if name not in lacking
        },
        lacking=lacking,
        trials=tuple(
            Trial(spec.data, spec.noise, spec.variant_name, spec.seed, **read_json(file))
            for file, spec in zip(files, specs, strict=True)
        ),
    )
    write_json(result_file, asdict(result))
    return result


def _packages_of(recipe: Recipe, scale: Scale) -> dict[str, str]:
    """Return the optional packages that a recipe needs, with the extra that brings each."""
    needed = {}
    if scale.kind == "train" or any(s["source"] == "images" for s in scale.data.values()):
        needed["torch"] = "train"
    if recipe.shows != "table":
        needed["matplotlib"] = "report"
    return needed


def _lacking(recipe: Recipe, scale: str, chosen: Scale, folder: Path | None) -> dict[str, str]:
    """Return the data sets that are not here, with the reason; raise if none is here."""
    reasons = {name: absent(source, folder) for name, source in chosen.data.items()}
    lacking = {name: reason for name, reason in reasons.items() if reason is not None}
    if len(lacking) == len(chosen.data):
        reason = next(iter(lacking.values()))
        raise InputError(
            f"{recipe.name} at scale {scale} cannot be run: {reason} `--scale smoke` runs anywhere."
        )
    return lacking


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
    origin: Mapping[str, Any],
    n_all: int,
    jobs: int,
    title: str,
    progress: ProgressMode,
) -> None:
    """Run trials and store each in its file; trials that measure time run last and alone."""
    if not missing:
        return
    work = [(spec, file, origin) for file, spec in missing.items()]
    timed = [item for item in work if item[0].kind in TIMED]
    others = [item for item in work if item[0].kind not in TIMED]
    done = n_all - len(missing)
    # In this process, so that two workers do not embed the same images.
    for spec in missing.values():
        prepare(spec.source, spec.folder)
    try:
        with Progress(progress, title, len(missing)) as bar:
            for workers, items in ((jobs, others), (1, timed)):
                for _ in _finished(items, workers):
                    done += 1
                    bar.advance()
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(
            f"interrupted; {done} of {n_all} trials are kept in {next(iter(missing)).parent}. The "
            "same command continues from there."
        ) from stop


def _finished(work: Sequence[tuple[Any, ...]], workers: int) -> Iterator[None]:
    """Run each trial, and yield as soon as one is finished."""
    # Without a pool, errors and interrupts arrive directly.
    if workers == 1 or len(work) < 2:
        for item in work:
            _run_one(*item)
            yield
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


def _run_one(spec: TrialSpec, file: Path, origin: Mapping[str, Any]) -> None:
    """Run a trial, in whichever process this is, and store its values."""
    description = spec.description()
    # Training settings have no such entry: it asks for a folder to continue from.
    if spec.settings.get("checkpoints"):
        settings = {k: v for k, v in spec.settings.items() if k != "checkpoints"}
        # By commit: a trial that other code has begun must not be finished by this one.
        code = origin["commit"] or origin["version"]
        spec = replace(spec, settings=settings, work=file.with_name(f"{file.stem}-{code}"))
    start = time.perf_counter()
    # The number of threads changes the last digits of sums, so it must not follow --jobs.
    with threadpool_limits(None if spec.kind in TIMED else 1):
        values = compute(spec)
    seconds = round(time.perf_counter() - start, 2)
    stored = {"description": description, "values": values, "seconds": seconds, "when": _now()}
    write_json(file, {**stored, **origin})


def compute(spec: TrialSpec) -> dict[str, Any]:
    """Run one trial; return its values, ready for JSON."""
    if spec.kind not in KINDS:
        raise InputError(f"There is no kind of trial {spec.kind!r}; there are {', '.join(KINDS)}.")
    if spec.kind == "train":
        # Imported on demand: only training needs torch.
        from kspr.experiments.reproduce.training import train

        values = train(spec)
    else:
        values = FUNCTIONS[spec.kind](spec)
    return {name: plain(value) for name, value in values.items()}


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


@dataclass(frozen=True)
class ListedScale:
    """One scale of a recipe."""

    name: str
    trials: int
    """How many, with the recipe's own number of seeds."""
    minutes: int | None
    """About how long they take with two jobs on two cores; None where that is not known."""
    state: str
    """Whether its data and packages are on this machine, in a few words."""


@dataclass(frozen=True)
class ListedRecipe:
    """One recipe."""

    name: str
    place: str
    title: str
    scales: tuple[ListedScale, ...]


def list_recipes(folder: Path | None = None) -> tuple[ListedRecipe, ...]:
    """Return all recipes, with what each scale would run and whether it can be run here."""
    return tuple(
        ListedRecipe(
            recipe.name,
            recipe.place,
            recipe.title,
            tuple(_listed(recipe, name, folder) for name in SCALES),
        )
        for recipe in map(load_recipe, recipe_names())
    )


def _listed(recipe: Recipe, name: str, folder: Path | None) -> ListedScale:
    scale = recipe.scale(name)
    packages = [module for module in _packages_of(recipe, scale) if not is_installed(module)]
    lacking = [title for title, source in scale.data.items() if absent(source, folder)]
    # Some data sets of several may be left out; a package may not.
    if packages or (lacking and len(lacking) == len(scale.data)):
        state = f"needs {' and '.join([*packages, *lacking])}"
    elif lacking:
        state = f"can be run here without {' and '.join(lacking)}"
    else:
        state = "can be run here"
    return ListedScale(name, len(plan(recipe, name, folder=folder)), scale.minutes, state)
