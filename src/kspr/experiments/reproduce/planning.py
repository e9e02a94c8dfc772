"""What a recipe would run: its trials at a scale, and the list of all recipes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kspr._packages import is_installed, require
from kspr.errors import InputError
from kspr.experiments.baselines import METHODS, module_of_method
from kspr.experiments.fingerprint import fingerprint
from kspr.experiments.reproduce.data import absent, identity, is_stored
from kspr.experiments.reproduce.recipes import SCALES, Recipe, Scale, load_recipe, recipe_names
from kspr.experiments.reproduce.trials import TrialSpec, module_of

__all__ = [
    "ListedRecipe",
    "ListedScale",
    "list_recipes",
    "plan",
    "require_packages",
    "trial_fingerprint",
]


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
            kind=chosen.kind if recipe.variants[name].method is None else "method",
            data=data,
            source=_without_settings(source),
            noise=noise,
            variant_name=name,
            variant=recipe.variants[name],
            settings={**chosen.settings, **source.get("settings", {})},
            seed=seed,
            folder=folder,
        )
        for seed in range(seeds or chosen.seeds)
        for data, source in chosen.data.items()
        for noise in chosen.noises or recipe.noises
        for name in chosen.variants or recipe.variants
        # A variant that is read from another one needs no trial of its own.
        if recipe.variants[name].of is None
    ]


def require_packages(recipe: Recipe, scale: str) -> None:
    """Raise `MissingExtraError` if a recipe needs a package that is not installed."""
    purpose = f"{recipe.name} at scale {scale}"
    for module, extra in _packages_of(recipe, recipe.scale(scale)).items():
        require(module, purpose, f"'knockoffs-spr[{extra}]'")


def _packages_of(recipe: Recipe, scale: Scale) -> dict[str, str]:
    """Return the optional packages that a recipe needs, with the extra that brings each."""
    needed = {}
    if scale.kind == "train" or any(s["source"] == "images" for s in scale.data.values()):
        needed["torch"] = "train"
    if recipe.shows != "table":
        needed["matplotlib"] = "report"
    return needed


def _without_settings(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return the description of a source; settings that it brings are those of the training."""
    return {name: value for name, value in source.items() if name != "settings"}


def trial_fingerprint(spec: TrialSpec) -> str:
    """Return the name under which a trial is stored: its description, data files and code."""
    rule = METHODS.get(spec.variant.method or "")
    return fingerprint(
        {
            "kind": spec.kind,
            # The list of methods is no part of the code: only this method's line counts.
            "rule": None if rule is None else [rule.rule, rule.constants],
            "source": dict(spec.source),
            # The path does not count: the same files elsewhere give the same trial.
            "files": identity(spec.source, spec.folder),
            "noise": spec.noise,
            "variant": asdict(spec.variant),
            "settings": dict(spec.settings),
            "seed": spec.seed,
        },
        module_of(spec.kind),
        # Of the methods' modules the own one only: the others are not run.
        *([] if rule is None else [module_of_method(spec.variant.method or "")]),
        without=_not_run(spec),
    )


def _not_run(spec: TrialSpec) -> tuple[str, ...]:
    """Return the rooms whose code a trial imports and does not run."""
    # A change of the selection must not discard hours of training by methods of others.
    selection = ("kspr.selectors",) if spec.kind == "method" else ()
    reading = ("kspr.features", "kspr.sources") if is_stored(spec.source, spec.folder) else ()
    return selection + reading


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
    recipes = [load_recipe(name) for name in recipe_names()]
    return tuple(
        ListedRecipe(
            recipe.name,
            recipe.place,
            recipe.title,
            tuple(_listed(recipe, name, folder) for name in SCALES),
        )
        for recipe in recipes
    )


def _listed(recipe: Recipe, name: str, folder: Path | None) -> ListedScale:
    scale: Scale = recipe.scale(name)
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
