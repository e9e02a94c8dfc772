"""A reproduced table: the paper's value beside ours, for terminals and for Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kspr.experiments.recipes import Recipe, load_recipe
from kspr.experiments.reproduction import Estimate, Reproduction

__all__ = ["Table", "as_markdown", "as_text", "tabulate"]

_PERCENT = (
    "accuracy",
    "fsr",
    "recall",
    "f1",
    "q",
    "top1",
    "top5",
    "transfer_top1",
    "transfer_top5",
)
"""Measures that are shares, and shown as the paper shows them."""
_NOTHING = "-"


@dataclass(frozen=True)
class Table:
    """Headings, and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tabulate(found: Reproduction) -> Table | None:
    """Return the table with entries ``ours (the paper's)``; None where there are no measures."""
    recipe = load_recipe(found.recipe)
    if not recipe.measures:
        return None
    by_noise = recipe.column == "noise"
    columns = recipe.columns or (recipe.noises if by_noise else recipe.measures)
    rows = tuple(_rows(found, recipe))
    return Table(("", "method", *columns), rows)


def _rows(found: Reproduction, recipe: Recipe) -> Iterator[tuple[str, ...]]:
    if recipe.section == "data":
        sections = tuple(recipe.scales[found.scale].data)
    else:
        sections = recipe.scales[found.scale].noises or recipe.noises
    for section in sections:
        reported = recipe.reported.get(section, {})
        extra = [name for name in recipe.variants if name not in reported]
        for place, row in enumerate([*reported, *extra]):
            printed = reported.get(row, ())
            entries = _entries(found, recipe, section, row, printed)
            yield (section if place == 0 else "", row, *entries)


def _entries(
    found: Reproduction, recipe: Recipe, section: str, row: str, printed: Sequence[str]
) -> Iterator[str]:
    across = recipe.noises if recipe.column == "noise" else recipe.measures
    for place, column in enumerate(across):
        ours = None
        if row in recipe.variants:
            noise = column if recipe.column == "noise" else _noise(recipe, section)
            measure = recipe.measures[0] if recipe.column == "noise" else column
            data = section if recipe.section == "data" else None
            ours = found.estimate(data, noise, row, measure)
        text = _shown(ours, recipe.measures[0] if recipe.column == "noise" else column)
        yield f"{text} ({printed[place]})" if printed else text


def _noise(recipe: Recipe, section: str) -> str:
    return section if recipe.section == "noise" else recipe.noises[0]


def _shown(value: Estimate | None, measure: str) -> str:
    if value is None:
        return _NOTHING
    factor, digits = (100, 1) if measure in _PERCENT else (1, 2)
    text = f"{factor * value.mean:.{digits}f}"
    return text if value.spread is None else f"{text} ± {factor * value.spread:.{digits}f}"


def as_markdown(table: Table) -> str:
    """Return the table as Markdown has it."""
    lines = [table.head, ("---",) * len(table.head), *table.rows]
    return "\n".join(f"| {' | '.join(line)} |".replace("*-", "\\*-") for line in lines)


def as_text(table: Table) -> str:
    """Return the table with its columns aligned."""
    widths = [max(map(len, column)) for column in zip(table.head, *table.rows, strict=True)]
    lines = [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (table.head, *table.rows)
    ]
    rule = "-" * max(map(len, lines))
    return "\n".join([lines[0], rule, *lines[1:]])
