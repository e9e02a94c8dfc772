"""Which trials a recipe has, which of them a run is asked for, and how long they take."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kspr._packages import is_installed
from kspr.errors import InputError
from kspr.experiments.reproduce.data import absent
from kspr.experiments.reproduce.recipes import (
    SCALES,
    Recipe,
    Scale,
    Variant,
    load_recipe,
    recipe_names,
)
from kspr.experiments.reproduce.trials import TrialSpec
from kspr.selectors.validation import check_choice

__all__ = ["Part", "absent_data", "forecast", "list_recipes", "packages_of", "plan"]


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
            chosen.kind,
            data,
            *_learned_from(recipe.variants[name], chosen, data),
            noise=noise,
            variant_name=name,
            variant=recipe.variants[name],
            seed=seed,
            folder=folder,
        )
        for seed in range(seeds or chosen.seeds)
        for data in chosen.data
        for noise in chosen.noises
        for name in chosen.variants
        # A variant that is read from another one needs no trial of its own.
        if recipe.variants[name].of is None
    ]


def _learned_from(
    variant: Variant, scale: Scale, data: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return source and settings of a variant's trials."""
    source = dict(scale.data[data])
    # Settings that a source brings are those of the training.
    settings = {**scale.settings, **source.pop("settings", {})}
    if variant.on_features and source["source"] == "images":
        return {"source": "features", "dataset": source["dataset"]}, {"preset": "cpu"}
    return source, settings


@dataclass(frozen=True)
class Part:
    """The trials of a recipe that one run is asked for; by default all of them."""

    methods: tuple[str, ...] | None = None
    """Rows of the table, by name."""
    noises: tuple[str, ...] | None = None
    shard: str | None = None
    """``"3/8"``: the third of eight parts, for the jobs of an array."""

    def of(self, specs: Sequence[TrialSpec], recipe: Recipe) -> list[TrialSpec]:
        """Return the trials of this part; every shard draws from all methods, noises and seeds."""
        for name in self.methods or ():
            check_choice("methods", name, recipe.variants)
        for name in self.noises or ():
            check_choice("noises", name, recipe.noises)
        # A row that is read from another one asks for the trials of that one.
        rows = {recipe.variants[name].of or name for name in self.methods or recipe.variants}
        noises = self.noises or recipe.noises
        chosen = [spec for spec in specs if spec.variant_name in rows and spec.noise in noises]
        if self.shard is None:
            return chosen
        number, _, count = self.shard.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise InputError(
                f"shard must be K/N with K from 1 to N, got {self.shard!r}. Write 3/8 for the "
                "third of eight."
            )
        # Every n-th trial might be the same method again and again.
        order = np.random.default_rng(0).permutation(len(chosen))
        return [chosen[i] for i in sorted(order[int(number) - 1 :: int(count)])]


def forecast(missing: Sequence[TrialSpec], known: Sequence[tuple[TrialSpec, float]]) -> float:
    """Return the seconds of the missing trials, each by known ones of its method and data.

    A method that has no known trial on its data is counted as the mean of all.
    """
    like: dict[tuple[str, str], list[float]] = {}
    for spec, seconds in known:
        like.setdefault((spec.variant_name, spec.data), []).append(seconds)
    every = [float(np.mean([seconds for _, seconds in known]))]
    return sum(float(np.mean(like.get((spec.variant_name, spec.data), every))) for spec in missing)


def packages_of(recipe: Recipe, scale: Scale) -> dict[str, str]:
    """Return the optional packages that a recipe needs, with the extra that brings each."""
    needed = {}
    if scale.kind == "train" or any(s["source"] == "images" for s in scale.data.values()):
        needed["torch"] = "train"
    if recipe.shows != "table":
        needed["matplotlib"] = "report"
    return needed


@dataclass(frozen=True)
class ListedScale:
    """One recipe at one scale."""

    recipe: str
    place: str
    title: str
    scale: str
    trials: int
    """How many, with the recipe's own number of seeds."""
    minutes: int | None
    """About how long they take with two jobs on two cores; None where that is not known."""
    state: str
    """Whether its data and packages are on this machine, in a few words."""


def list_recipes(folder: Path | None = None) -> list[ListedScale]:
    """Return all recipes at all scales, and whether they can be run here."""
    return [
        ListedScale(
            recipe.name,
            recipe.place,
            recipe.title,
            scale,
            len(plan(recipe, scale, folder=folder)),
            recipe.scale(scale).minutes,
            _state(recipe, recipe.scale(scale), folder),
        )
        for recipe in map(load_recipe, recipe_names())
        for scale in SCALES
    ]


def absent_data(scale: Scale, folder: Path | None) -> dict[str, str]:
    """Return the data sets of a scale that are not here, with the reason."""
    reasons = {title: absent(source, folder) for title, source in scale.data.items()}
    return {title: reason for title, reason in reasons.items() if reason is not None}


def _state(recipe: Recipe, scale: Scale, folder: Path | None) -> str:
    packages = [module for module in packages_of(recipe, scale) if not is_installed(module)]
    lacking = absent_data(scale, folder)
    # Some data sets of several may be left out; a package may not.
    if packages or len(lacking) == len(scale.data):
        return f"needs {' and '.join([*packages, *lacking])}"
    return f"can be run here without {' and '.join(lacking)}" if lacking else "can be run here"
