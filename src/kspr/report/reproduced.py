"""What `kspr reproduce` found, for people: a table with the paper's values, or a figure."""

from pathlib import Path

from kspr._files import staged
from kspr.experiments.recipes import load_recipe
from kspr.experiments.reproduction import Reproduction
from kspr.report._reproduced_table import as_markdown, as_text, tabulate

__all__ = ["render_markdown", "render_text", "write_figure", "write_reproduction"]


def write_reproduction(found: Reproduction, out: Path) -> tuple[Path, ...]:
    """Write what was found to `out`, as Markdown and, for a figure, as SVG; return the files."""
    stem = f"{found.recipe}-{found.scale}"
    written = []
    figure = None
    if load_recipe(found.recipe).shows != "table":
        figure = write_figure(found, out / f"{stem}.svg")
        written.append(figure)
    page = out / f"{stem}.md"
    with staged(page) as staging:
        staging.write_text(
            render_markdown(found, None if figure is None else figure.name) + "\n", "utf-8"
        )
    return (page, *written)


def write_figure(found: Reproduction, path: Path) -> Path:
    """Draw the figure of a recipe as one SVG file."""
    from kspr.report._reproduced_figures import draw

    return draw(found, path)


def render_markdown(found: Reproduction, figure: str | None = None, level: int = 2) -> str:
    """Return a section of a page: heading, how it came about, figure or table, what to think."""
    recipe = load_recipe(found.recipe)
    parts = [f"{'#' * level} {recipe.place}: {recipe.title}", " ".join(_facts(found))]
    if figure is not None:
        parts.append(f"![{recipe.title}]({figure})")
    table = tabulate(found)
    if table is not None:
        parts.append(as_markdown(table))
    parts.append("The paper says:\n" + "\n".join(f"- {claim}" for claim in recipe.claims))
    parts.append(_origin(found))
    return "\n\n".join(parts)


def render_text(found: Reproduction) -> str:
    """Return the same for a terminal."""
    recipe = load_recipe(found.recipe)
    parts = [f"{recipe.place}: {recipe.title}", "\n".join(_facts(found))]
    table = tabulate(found)
    if table is not None:
        parts.append(as_text(table))
    parts.append("The paper says:\n" + "\n".join(f"  {claim}" for claim in recipe.claims))
    parts.append(_origin(found))
    return "\n\n".join(parts)


def _facts(found: Reproduction) -> list[str]:
    """Return the sentences without which the numbers mean nothing."""
    recipe = load_recipe(found.recipe)
    facts = [f"Scale {found.scale}: {recipe.scale(found.scale).note}"]
    facts += [f"{name} here: {what}." for name, what in found.data.items()]
    facts += [f"{name} was not run: {reason}" for name, reason in found.lacking.items()]
    if not recipe.reported:
        facts.append("The paper prints no numbers for this figure.")
    if recipe.measures:
        seeds = f"{found.seeds} seeds, ± their standard error" if found.seeds > 1 else "one seed"
        entries = "ours (the paper's)" if recipe.reported else "ours, rates in %"
        facts.append(f"Entries are {entries}; {seeds}.")
    if "q" in recipe.measures:
        facts.append("For q, ± is the standard deviation over pieces, as in the paper.")
    return facts


def _origin(found: Reproduction) -> str:
    """Return which command made this, when and on what."""
    about = found.machine
    first, last = (pick(cell.when for cell in found.cells) for pick in (min, max))
    when = first[:10] if first[:10] == last[:10] else f"{first[:10]} to {last[:10]}"
    command = " ".join(found.command) or f"kspr reproduce {found.recipe} --scale {found.scale}"
    return (
        f"Made by `{command}` on {when}: {_count(len(found.cells), 'cell')}, "
        f"{found.seconds / 60:.1f} minutes of computing; {about['cpu']}, {about['cores']} cores, "
        f"kspr {about['versions']['knockoffs-spr']} (source {_sources(found)})."
    )


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _sources(found: Reproduction) -> str:
    """Return the state of the code, or states where cells are of several sittings."""
    return ", ".join(sorted({cell.source for cell in found.cells}))
