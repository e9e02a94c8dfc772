"""Trials of every kind of stored result, computed with the code of one checkout.

    python benchmarks/_migrate_trials.py CHECKOUT OUT.json

Called by `migrate.py`, once for the checkout before the move and once for the one after it. Modules
are taken from CHECKOUT, under the names of either side.
"""

import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CHECKOUT = Path(sys.argv[1]).resolve()
DATA = CHECKOUT.parent / "shared" / "data"
RECIPES = {
    "examples": ("figure5", 2),
    "path": ("figure2", 2),
    "select": ("figure4", 1),
    "theory": ("appendix-figure1", 1),
    "time": ("table5", 1),
    "train": ("table1", 1),
}
"""For each kind of trial, a recipe that has it, and how many seeds give two trials."""
NOT_A_NUMBER_OF_THE_METHOD = {"seconds", "select_seconds", "select_share", "memory", "machine"}


def either(*names: str) -> Any:
    """Return the first of several modules that exists in this checkout."""
    for name in names:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    raise ModuleNotFoundError(f"none of {names} in {CHECKOUT}")


def reproduced() -> Iterator[tuple[str, str, Any]]:
    """Yield two trials of each kind of recipe."""
    recipes = either("kspr.experiments.reproduce.recipes", "kspr.experiments.recipes")
    planning = either(
        "kspr.experiments.reproduce.planning",
        "kspr.experiments.reproduce.running",
        "kspr.experiments.running",
    )
    kinds = either("kspr.experiments.reproduce.trials", "kspr.experiments.cells")
    for kind, (recipe, seeds) in RECIPES.items():
        planned = planning.plan(recipes.load_recipe(recipe), "mini", seeds, DATA)
        for trial in _two(planned):
            spec = getattr(trial, "job", trial)
            name = f"{recipe}: {trial.data}, {trial.noise}, {_variant(trial)}, seed {spec.seed}"
            found = kinds.compute(trial) if spec is trial else kinds.compute(trial.kind, spec)
            yield f"reproduce {kind}", name, found


def _variant(trial: Any) -> str:
    return str(getattr(trial, "variant_name", None) or trial.variant)


def _two(planned: list[Any]) -> list[Any]:
    """Return two trials whose variants differ where there are several."""
    first = planned[0]
    same = [trial for trial in planned[1:] if trial.data == first.data]
    return [first, ([trial for trial in same if _variant(trial) != _variant(first)] or same)[-1]]


def error_rates() -> Iterator[tuple[str, str, Any]]:
    """Yield trials of `fsr.py`: two controls, checked rows, and a peer."""
    data, methods = either("_fsr_cases", "_fsr_data"), import_module("_fsr_methods")
    fsr = import_module("fsr")
    cases = getattr(data, "CASES", None) or data.SETTINGS
    chosen = [s for s in cases if s.name in ("CIFAR-10, Sym. 40%", "digits, Asy. 40%")]
    for setting in chosen or cases[:2]:
        sample = setting.make(0)
        for name in methods.METHODS:
            if name in ("default", "exchangeable", "paper", "100 checks"):
                if not fsr._applies(name, setting):
                    continue
                answer = methods.METHODS[name](methods.Shared(sample, None), 0)
                kept = {q: [int(m.sum()) for m in masks] for q, masks in answer.keep.items()}
                right = sample.y == sample.y_true
                wrong = {
                    q: [int((m & ~right).sum()) for m in masks] for q, masks in answer.keep.items()
                }
                yield (
                    "error rate",
                    f"{setting.name}, {name}",
                    {"noise_rate": answer.noise_rate, "kept": kept, "wrong": wrong},
                )


def compared() -> Iterator[tuple[str, str, Any]]:
    """Yield all methods on two scenes of `peers.py`."""
    peers = import_module("peers")
    compare = either("kspr.experiments.compare.comparing", "kspr.experiments.comparing").compare
    cases = getattr(peers, "CASES", None) or peers.SCENES
    for scene in [scene for scene in cases if scene.data == "digits"][:2]:
        old = hasattr(scene, "spoil")
        data = scene.make() if old else scene.make(peers.SEED)
        found = compare(
            data.X,
            scene.spoil(data.y_true) if old else data.y,
            data.y_true,
            q=peers.Q,
            seed=peers.SEED,
            test=data.test,
        )
        told = found.to_dict()
        methods = told.get("trials", told.get("cells"))
        yield "compare", scene.name, methods


def heads() -> Iterator[tuple[str, str, Any]]:
    """Yield two trials of `train_head.py`."""
    head = import_module("train_head")
    for method in ("default once", "default cycle"):
        found = head.measure(method, "Sym.", 0.4, 0)
        yield "train head", f"{method}, Sym. 40 %", found


def images() -> Iterator[tuple[str, str, Any]]:
    """Yield two trials of `train_images.py`, shortened: the same code on fewer images."""
    script = import_module("train_images")
    script.EPOCHS, script.PRETRAIN, script.N_TRAIN, script.N_TEST = 5, 1, 600, 200
    with TemporaryDirectory() as work:
        script.WORK = Path(work)
        for method in ("default", "paper"):
            yield "train images", f"{method}, Sym. 40 %", script.measure(method, "Sym. 40 %")


def defaults() -> Iterator[tuple[str, str, Any]]:
    """Yield two trials of `defaults.py`."""
    script = import_module("defaults")
    X, y_true = script.load() if hasattr(script, "load") else script.cifar10()[:2]
    y = script.noisy(y_true, "Asy.", 0.4, 0)
    for name, model in script.variants():
        if name in ("default", "paper"):
            selection = model.set_params(random_state=0, progress=False).fit(X, y).selection_
            yield "defaults", name, vars(script.quality(selection, y == y_true))


SOURCES: list[Callable[[], Iterator[tuple[str, str, Any]]]] = [
    reproduced,
    error_rates,
    compared,
    defaults,
    heads,
    images,
]


def comparable(value: Any) -> Any:
    """Return what must not change: numbers and names, without seconds and bytes."""
    if isinstance(value, dict):
        return {
            str(name): comparable(entry)
            for name, entry in value.items()
            if not any(word in str(name) for word in NOT_A_NUMBER_OF_THE_METHOD)
        }
    if isinstance(value, (list, tuple)):
        return [comparable(entry) for entry in value]
    return value.item() if hasattr(value, "item") else value


def main() -> None:
    out = Path(sys.argv[2])
    sys.path[0] = str(CHECKOUT / "benchmarks")
    sys.path.insert(1, str(CHECKOUT / "src"))
    found = json.loads(out.read_text()) if out.exists() else []
    done = {(entry["kind"], entry["trial"]) for entry in found}
    wanted = sys.argv[3:]
    for source in SOURCES:
        if wanted and source.__name__ not in wanted:
            continue
        for kind, trial, values in source():
            if (kind, trial) not in done:
                found.append({"kind": kind, "trial": trial, "values": comparable(values)})
                out.write_text(json.dumps(found, indent=1) + "\n")
                print(kind, trial, flush=True)


if __name__ == "__main__":
    main()
