"""A reproduced table or figure: our values beside the paper's, as text and as Markdown."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kspr._files import write_text
from kspr._text import text_table
from kspr.experiments.baselines import METHODS
from kspr.experiments.reproduce.recipes import Recipe, load_recipe
from kspr.experiments.reproduce.reproduction import Estimate, Reproduction

__all__ = [
    "ResultTable",
    "markdown_table",
    "render_markdown",
    "render_text",
    "tabulate",
    "write_figure",
    "write_reproduction",
]

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
"""Measures that are shares, shown in percent as in the paper."""
_NOTHING = "-"
_OURS = "kspr default"
_TOLD = "(t)"
"""Mark of methods that are told something that ours is not."""


@dataclass(frozen=True)
class ResultTable:
    """Headings, and rows of text."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tabulate(found: Reproduction) -> ResultTable | None:
    """Return the table with entries ``ours (the paper's)``; None for a figure without measures."""
    recipe = load_recipe(found.recipe)
    if not recipe.measures:
        return None
    by_noise = recipe.column == "noise"
    columns = recipe.columns or (recipe.noises if by_noise else recipe.measures)
    rows = tuple(_rows(found, recipe))
    return ResultTable(("", "method", *columns), rows)


def _rows(found: Reproduction, recipe: Recipe) -> Iterator[tuple[str, ...]]:
    if recipe.section == "data":
        sections = tuple(recipe.scales[found.scale].data)
    else:
        sections = recipe.scales[found.scale].noises or recipe.noises
    for section in sections:
        reported = recipe.reported.get(section, {})
        # Our own variants, which the paper does not have, come last.
        extra = [name for name in recipe.variants if name not in reported]
        for place, row in enumerate([*reported, *extra]):
            printed = reported.get(row, ())
            entries = _entries(found, recipe, section, row, printed)
            mark = f" {_TOLD}" if row in _told(recipe) else ""
            yield (section if place == 0 else "", f"{row}{mark}", *entries)


def _told(recipe: Recipe) -> list[str]:
    """Return the rows of methods that are told something that ours is not."""
    methods = {row: METHODS.get(variant.method or "") for row, variant in recipe.variants.items()}
    return [row for row, listed in methods.items() if listed is not None and listed.told]


def _standing(found: Reproduction, recipe: Recipe) -> list[str]:
    """Return one sentence on where `kspr default` is ahead of the other methods, and where not.

    Only for tables with training methods of others: elsewhere variants are no rivals.
    """
    if _OURS not in recipe.variants or not any(v.method for v in recipe.variants.values()):
        return []
    n_first, ahead = 0, []
    noises = recipe.scale(found.scale).noises or recipe.noises
    places = [(data, noise) for data in found.data for noise in noises]
    for data, noise in places:
        means = {row: found.estimate(data, noise, row, "accuracy") for row in recipe.variants}
        ours = means.pop(_OURS)
        if ours is None:
            return []
        better = {row: m for row, m in means.items() if m is not None and m.mean > ours.mean}
        n_first += not better
        for row, mean in sorted(better.items(), key=lambda item: -item[1].mean):
            mark = f" {_TOLD}" if row in _told(recipe) else ""
            values = f"{_shown(mean, 'accuracy')}, ours {_shown(ours, 'accuracy')}"
            ahead.append(f"{row}{mark} on {data}, {noise} ({values})")
    others = f" Ahead of it: {'; '.join(ahead)}." if ahead else ""
    return [f"`{_OURS}` has the highest accuracy in {n_first} of {len(places)} columns.{others}"]


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
    # The paper prints shares in percent.
    factor, digits = (100, 1) if measure in _PERCENT else (1, 2)
    text = f"{factor * value.mean:.{digits}f}"
    return text if value.spread is None else f"{text} ± {factor * value.spread:.{digits}f}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows of text as a table in Markdown.

    >>> print(markdown_table(["noise", "FSR"], [["Sym. 40 %", "0.05"]]))
    | noise | FSR |
    |---|---|
    | Sym. 40 % | 0.05 |
    """
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    # A star before a dash would start emphasis: the paper calls its ablations *-random and so on.
    lines += [f"| {' | '.join(row)} |".replace("*-", "\\*-") for row in rows]
    return "\n".join(lines)


def _as_text(table: ResultTable) -> str:
    """Return the table with all columns flush left and a rule below the head."""
    head, *lines = text_table(table.head, table.rows, left=len(table.head)).splitlines()
    rule = "-" * max(map(len, (head, *lines)))
    return "\n".join([head, rule, *lines])


def write_reproduction(found: Reproduction, out: Path) -> tuple[Path, ...]:
    """Write the result to `out` as Markdown and, for a figure, as SVG; return the files."""
    stem = f"{found.recipe}-{found.scale}"
    written = []
    figure = None
    if load_recipe(found.recipe).shows != "table":
        figure = write_figure(found, out / f"{stem}.svg")
        written.append(figure)
    page = out / f"{stem}.md"
    write_text(page, render_markdown(found, None if figure is None else figure.name) + "\n")
    return (page, *written)


def write_figure(found: Reproduction, path: Path) -> Path:
    """Draw the figure of a recipe as an SVG file, and return its path."""
    from kspr.experiments.reproduce.figures import draw

    return draw(found, path)


def render_markdown(found: Reproduction, figure: str | None = None, level: int = 2) -> str:
    """Return a section in Markdown: heading, conditions, figure or table, the paper's claims."""
    recipe = load_recipe(found.recipe)
    parts = [f"{'#' * level} {recipe.place}: {recipe.title}", " ".join(_facts(found))]
    if figure is not None:
        parts.append(f"![{recipe.title}]({figure})")
    table = tabulate(found)
    if table is not None:
        parts.append(markdown_table(table.head, table.rows))
    parts += _standing(found, recipe)
    if recipe.claims:
        parts.append("The paper says:\n" + "\n".join(f"- {claim}" for claim in recipe.claims))
    parts.append(_origin(found))
    return "\n\n".join(parts)


def render_text(found: Reproduction) -> str:
    """Return the same for a terminal, without a figure."""
    recipe = load_recipe(found.recipe)
    parts = [f"{recipe.place}: {recipe.title}", "\n".join(_facts(found))]
    table = tabulate(found)
    if table is not None:
        parts.append(_as_text(table))
    parts += _standing(found, recipe)
    if recipe.claims:
        parts.append("The paper says:\n" + "\n".join(f"  {claim}" for claim in recipe.claims))
    parts.append(_origin(found))
    return "\n\n".join(parts)


def _facts(found: Reproduction) -> list[str]:
    """Return what a reader must know to judge the numbers, in sentences."""
    recipe = load_recipe(found.recipe)
    facts = [f"Scale {found.scale}: {recipe.scale(found.scale).note}"]
    facts += [f"{name} here: {what}." for name, what in found.data.items()]
    facts += [f"{name} was not run: {reason}" for name, reason in found.lacking.items()]
    if not recipe.reported:
        facts.append(f"The paper prints no numbers for this {_kind(recipe)}.")
    if recipe.measures:
        seeds = f"{found.seeds} seeds, ± their standard error" if found.seeds > 1 else "one seed"
        entries = "ours (the paper's)" if recipe.reported else "ours, rates in %"
        facts.append(f"Entries are {entries}; {seeds}.")
    if _told(recipe):
        facts.append(f"{_TOLD} marks methods that are told the true noise rate; ours is not.")
    if "q" in recipe.measures:
        facts.append("For q, ± is the standard deviation over pieces, as in the paper.")
    return facts


def _kind(recipe: Recipe) -> str:
    return "table" if recipe.shows == "table" else "figure"


def _origin(found: Reproduction) -> str:
    """Return the command that made this, the date and the machine, in one sentence."""
    about = found.machine
    # ISO times sort as text; their first ten characters are the date.
    first, last = (pick(trial.when for trial in found.trials) for pick in (min, max))
    when = first[:10] if first[:10] == last[:10] else f"{first[:10]} to {last[:10]}"
    command = " ".join(found.command) or f"kspr reproduce {found.recipe} --scale {found.scale}"
    return (
        f"Made by `{command}` on {when}: {_count(len(found.trials), 'trial')}, "
        f"{found.seconds / 60:.1f} minutes of computing; {about['cpu']}, {about['cores']} cores, "
        f"kspr {about['versions']['knockoffs-spr']} (source {_sources(found)})."
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _sources(found: Reproduction) -> str:
    """Return the digest of the code; several if trials were run with several versions of it."""
    return ", ".join(sorted({trial.source for trial in found.trials}))
