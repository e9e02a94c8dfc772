"""The result of a recipe: its trials, their means beside the paper's values, as text and Markdown.

The result is stored as JSON by `running.reproduce`, and read back by `read_reproduction`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from kspr._files import read_json
from kspr._text import text_table
from kspr.errors import InputError
from kspr.experiments.baselines import METHODS
from kspr.experiments.reproduce.recipes import Recipe, load_recipe

__all__ = [
    "Estimate",
    "Reproduction",
    "Trial",
    "markdown_table",
    "read_reproduction",
    "render_markdown",
    "render_text",
]

_COMMITS_SINCE = "2026-11-18T19"
"""Trials from before this time carry no commit, wherever they were run."""
_OURS = "kspr default"
_TOLD = "(t)"
"""Mark of methods that are told something that ours is not."""


@dataclass(frozen=True)
class Trial:
    """One variant on one data set with one noise and one seed, after it was run."""

    data: str
    noise: str
    variant: str
    seed: int
    description: Mapping[str, Any]
    """All that the recipe sets for the trial: it is stored under this."""
    values: Mapping[str, Any]
    seconds: float
    when: str
    version: str
    """Of this package, as it computed the values."""
    commit: str | None
    """Of the sources then; None for an installed package, and before commits were stored."""
    machine: str

    @property
    def code(self) -> str:
        """Version and commit, in a few words."""
        if self.commit is not None:
            return f"kspr {self.version} of commit {self.commit}"
        unknown = ", before commits were stored" if self.when < _COMMITS_SINCE else ""
        return f"kspr {self.version}{unknown}"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds."""

    mean: float
    spread: float | None
    """Its standard error; None for a single seed. For q, the standard deviation over cut groups."""
    seeds: int


@dataclass(frozen=True)
class Reproduction:
    """All trials of a recipe at a scale, with the command, machine and data behind them."""

    recipe: str
    scale: str
    command: tuple[str, ...]
    machine: Mapping[str, Any]
    data: Mapping[str, str]
    """The paper's name of a data set, and what was used in its place."""
    lacking: Mapping[str, str]
    """Data sets that were not on this machine, with the reason."""
    trials: tuple[Trial, ...]
    planned: int | None = None
    """Trials of the whole recipe at this scale; None in results of before parts could be run."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Trials that could not be run, with the reason."""

    @property
    def definition(self) -> Recipe:
        """The recipe."""
        return load_recipe(self.recipe)

    @property
    def noises(self) -> tuple[str, ...]:
        """Noises that were run."""
        return self.definition.scale(self.scale).noises

    @property
    def variants(self) -> tuple[str, ...]:
        """Variants that were run, or are read from others."""
        return self.definition.scale(self.scale).variants

    @property
    def seeds(self) -> int:
        """How many seeds were run."""
        return len({trial.seed for trial in self.trials})

    @property
    def seconds(self) -> float:
        """Seconds of all trials together."""
        return sum(trial.seconds for trial in self.trials)

    @property
    def older(self) -> tuple[Trial, ...]:
        """Trials of another version or commit than the one that wrote this result."""
        now = self.machine["versions"]["knockoffs-spr"], self.machine["commit"]
        return tuple(trial for trial in self.trials if (trial.version, trial.commit) != now)

    def of(self, data: str | None, noise: str, variant: str) -> list[Trial]:
        """Return the trials of a variant, one per seed; of the first data set if `data` is None."""
        run = self.definition.variants[variant].of or variant
        name = data if data is not None else next(iter(self.data), None)
        return [
            trial
            for trial in self.trials
            if (trial.data, trial.noise, trial.variant) == (name, noise, run)
        ]

    def estimate(self, data: str | None, noise: str, variant: str, measure: str) -> Estimate | None:
        """Return the mean of a measure over seeds; None where it was not measured."""
        chosen = self.definition.variants.get(variant)
        if chosen is None:
            return None
        read = chosen.reads.get(measure, measure)
        trials = self.of(data, noise, variant)
        values = _present(trials, read)
        if not values:
            return None
        n = len(values)
        spreads = _present(trials, f"{read}_spread")
        # The paper gives the spread of q over pieces, not over seeds.
        if spreads:
            return Estimate(float(np.mean(values)), float(np.mean(spreads)), n)
        # ddof=1: the seeds are a sample, and few.
        error = float(np.std(values, ddof=1)) / sqrt(n) if n > 1 else None
        return Estimate(float(np.mean(values)), error, n)


def _present(trials: list[Trial], name: str) -> list[float]:
    """Return a value of all trials that have it."""
    return [trial.values[name] for trial in trials if trial.values.get(name) is not None]


def read_reproduction(path: Path) -> Reproduction:
    """Return the result that `reproduce` has stored at `path`."""
    stored = read_json(path)
    if stored is None:
        raise InputError(f"{path} holds no result of kspr reproduce.")
    trials = tuple(Trial(**trial) for trial in stored.pop("trials"))
    return Reproduction(trials=trials, **{**stored, "command": tuple(stored["command"])})


def _table(result: Reproduction) -> tuple[list[str], list[list[str]]] | None:
    """Return head and rows, with entries ``ours (the paper's)``; None for a mere figure."""
    recipe = result.definition
    if not recipe.measures:
        return None
    by_noise = recipe.column == "noise"
    columns = recipe.columns or (recipe.noises if by_noise else recipe.measures)
    sections = recipe.scales[result.scale].data if recipe.section == "data" else result.noises
    rows = [row for section in sections for row in _rows(result, section)]
    return ["", "method", *columns], rows


def _rows(result: Reproduction, section: str) -> Iterator[list[str]]:
    """Yield the rows of a section of the table: a data set, or a noise."""
    recipe, told = result.definition, _told(result.definition)
    data = section if recipe.section == "data" else None
    if recipe.column == "noise":
        columns = [(noise, recipe.measures[0]) for noise in recipe.noises]
    else:
        noise = section if recipe.section == "noise" else recipe.noises[0]
        columns = [(noise, measure) for measure in recipe.measures]
    reported = recipe.reported.get(section, {})
    # Our own variants, which the paper does not have, come last.
    extra = [name for name in recipe.variants if name not in reported]
    for place, row in enumerate([*reported, *extra]):
        entries = [_shown(result.estimate(data, noise, row, m), m) for noise, m in columns]
        if row in reported:
            pairs = zip(entries, reported[row], strict=True)
            entries = [f"{ours} ({printed})" for ours, printed in pairs]
        mark = f" {_TOLD}" if row in told else ""
        yield [section if place == 0 else "", f"{row}{mark}", *entries]


def _told(recipe: Recipe) -> list[str]:
    """Return the rows of methods that are told something that ours is not."""
    methods = {row: METHODS.get(variant.method or "") for row, variant in recipe.variants.items()}
    return [row for row, listed in methods.items() if listed is not None and listed.told]


def _standing(result: Reproduction) -> list[str]:
    """Return one sentence on where `kspr default` is ahead of the other methods, and where not.

    Only for tables with training methods of others: elsewhere variants are no rivals.
    """
    recipe, told = result.definition, _told(result.definition)
    if _OURS not in recipe.variants or not any(v.method for v in recipe.variants.values()):
        return []
    n_first, ahead = 0, []
    places = [(data, noise) for data in result.data for noise in result.noises]
    for data, noise in places:
        means = {row: result.estimate(data, noise, row, "accuracy") for row in recipe.variants}
        ours = means.pop(_OURS)
        if ours is None:
            return []
        better = {row: m for row, m in means.items() if m is not None and m.mean > ours.mean}
        n_first += not better
        for row, mean in sorted(better.items(), key=lambda item: -item[1].mean):
            mark = f" {_TOLD}" if row in told else ""
            values = f"{_shown(mean, 'accuracy')}, ours {_shown(ours, 'accuracy')}"
            ahead.append(f"{row}{mark} on {data}, {noise} ({values})")
    others = f" Ahead of it: {'; '.join(ahead)}." if ahead else ""
    return [f"`{_OURS}` has the highest accuracy in {n_first} of {len(places)} columns.{others}"]


def _shown(value: Estimate | None, measure: str) -> str:
    if value is None:
        return "-"
    # All other measures are shares, which the paper prints in percent.
    factor, digits = (1, 2) if measure in ("seconds", "median") else (100, 1)
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


def _plain_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the table with all columns flush left and a rule below the head."""
    first, *lines = text_table(head, rows, left=len(head)).splitlines()
    rule = "-" * max(map(len, (first, *lines)))
    return "\n".join([first, rule, *lines])


def render_markdown(result: Reproduction, figure: str | None = None, level: int = 2) -> str:
    """Return a section in Markdown: heading, conditions, figure or table, the paper's claims."""
    recipe = result.definition
    parts = [f"{'#' * level} {recipe.place}: {recipe.title}", " ".join(_facts(result))]
    if figure is not None:
        parts.append(f"![{recipe.title}]({figure})")
    return "\n\n".join([*parts, *_parts(result, markdown_table, "- ")])


def render_text(result: Reproduction) -> str:
    """Return the same for a terminal, without a figure."""
    recipe = result.definition
    parts = [f"{recipe.place}: {recipe.title}", "\n".join(_facts(result))]
    return "\n\n".join([*parts, *_parts(result, _plain_table, "  ")])


def _parts(result: Reproduction, draw: Callable[..., str], bullet: str) -> Iterator[str]:
    """Yield what follows the conditions: table, standing, the paper's claims, and the origin."""
    recipe, table = result.definition, _table(result)
    if table is not None:
        yield draw(*table)
    yield from _standing(result)
    if recipe.claims:
        yield "The paper says:\n" + "\n".join(f"{bullet}{claim}" for claim in recipe.claims)
    yield _origin(result)


def _facts(result: Reproduction) -> list[str]:
    """Return the conditions of the numbers: data, scale, seeds and marks, in sentences."""
    recipe = result.definition
    facts = [f"Scale {result.scale}: {recipe.scale(result.scale).note}"]
    facts += [f"{name} here: {what}." for name, what in result.data.items()]
    facts += [f"{name} was not run: {reason}" for name, reason in result.lacking.items()]
    for reason, names in _by_reason(result.failed).items():
        more = f" and {_trials(len(names) - 1)} more" if len(names) > 1 else ""
        facts.append(f"{names[0]}{more} could not be run: {reason}")
    if result.planned is not None and len(result.trials) < result.planned:
        facts.append(f"{len(result.trials)} of {result.planned} trials are stored.")
    if not recipe.reported:
        kind = "table" if recipe.shows == "table" else "figure"
        facts.append(f"The paper prints no numbers for this {kind}.")
    if recipe.measures:
        seeds = f"{result.seeds} seeds, ± their standard error" if result.seeds > 1 else "one seed"
        entries = "ours (the paper's)" if recipe.reported else "ours, rates in %"
        facts.append(f"Entries are {entries}; {seeds}.")
    if _told(recipe):
        facts.append(f"{_TOLD} marks methods that are told the true noise rate; ours is not.")
    if "q" in recipe.measures:
        facts.append("For q, ± is the standard deviation over pieces, as in the paper.")
    return facts


def _by_reason(failed: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of failed trials by the reason."""
    names: dict[str, list[str]] = {}
    for name, reason in failed.items():
        names.setdefault(reason, []).append(name)
    return names


def _origin(result: Reproduction) -> str:
    """Return the command, the dates, the machine and the code behind the numbers."""
    # ISO times sort as text; their first ten characters are the date.
    first, last = (pick(trial.when for trial in result.trials)[:10] for pick in (min, max))
    when = first if first == last else f"{first} to {last}"
    command = " ".join(result.command) or f"kspr reproduce {result.recipe} --scale {result.scale}"
    machines = " and ".join(sorted({trial.machine for trial in result.trials}))
    text = (
        f"Made by `{command}` on {when}: {_trials(len(result.trials))}, "
        f"{result.seconds / 60:.1f} minutes of computing; {machines}; {_code(result)}."
    )
    if not result.older:
        return text
    rows = ", ".join(dict.fromkeys(trial.variant for trial in result.older))
    return (
        f"{text} Older, of another version or commit than the last run: {rows} "
        f"({_trials(len(result.older))}); the option `--again` runs them anew."
    )


def _code(result: Reproduction) -> str:
    """Return the versions and commits of the trials, with their number if there are several."""
    counts = Counter(trial.code for trial in result.trials)
    if len(counts) == 1:
        return next(iter(counts))
    return " and ".join(f"{code} ({_trials(n)})" for code, n in sorted(counts.items()))


def _trials(n: int) -> str:
    return f"{n} trial{'s' * (n != 1)}"
