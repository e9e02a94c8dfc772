"""What can be reproduced, and what of it on this machine."""

from dataclasses import dataclass
from pathlib import Path

from kspr.experiments.reproduce.data import absent
from kspr.experiments.reproduce.recipes import SCALES, Recipe, load_recipe, recipe_names
from kspr.experiments.reproduce.running import plan

__all__ = ["ListedRecipe", "ListedScale", "list_recipes"]


@dataclass(frozen=True)
class ListedScale:
    """One scale of a recipe."""

    name: str
    cells: int
    """With the recipe's own number of seeds."""
    minutes: int | None
    """About how long they take with two jobs on two cores; None where that is not known."""
    state: str
    """Whether its data is here, in a few words."""


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
            tuple(_scale(recipe, name, folder) for name in SCALES),
        )
        for recipe in recipes
    )


def _scale(recipe: Recipe, name: str, folder: Path | None) -> ListedScale:
    sources = recipe.scale(name).data
    lacking = [title for title, source in sources.items() if absent(source, folder)]
    state = f"needs {' and '.join(lacking)}" if lacking else "can be run here"
    if lacking and len(lacking) < len(sources):
        state = f"can be run here without {' and '.join(lacking)}"
    minutes = recipe.scale(name).minutes
    return ListedScale(name, len(plan(recipe, name, folder=folder)), minutes, state)
