"""A result as text and as Markdown: our values beside the paper's, its claims, and the origin."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from math import hypot
from typing import NamedTuple

from kspr._text import text_table
from kspr.experiments.baselines import METHODS
from kspr.experiments.reproduce.recipes import Claim, Recipe
from kspr.experiments.reproduce.reproduction import Estimate, Reproduction, shown

HOLDS, DOES_NOT, CANNOT = "holds", "does not", "cannot be told at this scale"
_ONE_SEED = 0.01
"""Standard error that is assumed of a single seed: a difference of two points counts."""


class Verdict(NamedTuple):
    """A claim, and what the stored trials say of it."""

    claim: str
    seen: str
    reason: str


class _Compared(NamedTuple):
    """The value that is claimed to be ahead, and one that is claimed to be behind it."""

    ahead: Estimate
    behind: Estimate
    names: tuple[str, str]
    where: str

    def lead(self, claim: Claim) -> float:
        """By how much the claim is met; negative where it is the other way round."""
        difference = self.ahead.mean - self.behind.mean
        return -difference if claim.lower else difference

    @property
    def error(self) -> float:
        return hypot(*(_ONE_SEED if e.spread is None else e.spread for e in self[:2]))


def verdicts(result: Reproduction) -> list[Verdict]:
    """Return a verdict on each claim of the recipe.

    A claim holds where all comparisons go its way, one of them by more than two standard errors. It
    does not where one goes against it by more. Otherwise, and on other data, it cannot be told.
    """
    return [Verdict(claim.says, *_judged(claim, result)) for claim in result.definition.claims]


def _judged(claim: Claim, result: Reproduction) -> tuple[str, str]:
    data = claim.data or next(iter(result.definition.scale(result.scale).data))
    if claim.open:
        return CANNOT, claim.open
    if not result.is_papers(data):
        return CANNOT, f"{result.data.get(data, 'other data')} in place of {data}"
    compared = list(_compared(claim, data, result))
    if not compared:
        return CANNOT, "not run"
    leads = [c.lead(claim) for c in compared]
    clear = [abs(lead) > 2 * c.error for lead, c in zip(leads, compared, strict=True)]
    n, seeds = len(compared), min(c.ahead.seeds for c in compared)
    by = "one seed" if seeds == 1 else f"{seeds} seeds"
    true = f"true in {sum(lead > 0 for lead in leads)} of {n} comparison{'s' * (n != 1)}, {by}"
    least = min(range(n), key=leads.__getitem__)
    if leads[least] > 0:
        return (HOLDS, true) if any(clear) else (CANNOT, f"{true}, by what may be chance")
    reason = f"{true}; most against it: {_said(compared[least], claim)}"
    if any(c and lead < 0 for c, lead in zip(clear, leads, strict=True)):
        return DOES_NOT, reason
    return CANNOT, f"{reason}, which may be chance"


def _said(compared: _Compared, claim: Claim) -> str:
    ahead, behind = (
        f"{name} {shown(value, claim.measure)}"
        for name, value in zip(compared.names, compared[:2], strict=True)
    )
    if claim.limit is not None:
        behind = f"the limit {shown(Estimate(claim.limit, None, 1), claim.measure)}"
    return f"{compared.where}{ahead}, {behind}"


def _compared(claim: Claim, data: str, result: Reproduction) -> Iterator[_Compared]:
    """Yield the comparisons that the claim is about, as far as both trials are stored."""
    recipe = result.definition
    if claim.row:
        # Between noises, of one row.
        pairs = [(claim.ahead, claim.row, other, claim.row) for other in claim.of]
    else:
        printed = next(iter(recipe.reported.values()), {})
        others = claim.of or tuple(row for row in printed if row != claim.ahead)
        noises = [noise for noise in result.noises if noise in (claim.noises or result.noises)]
        pairs = [
            (noise, claim.ahead, noise, row)
            for noise in noises
            for row in (("",) if claim.limit is not None else others)
            if f"{row}, {noise}" not in claim.but
        ]
    for noise, row, other_noise, other in pairs:
        ahead = result.estimate(data, noise, row, claim.measure)
        behind = result.estimate(data, other_noise, other, claim.measure)
        if claim.limit is not None and ahead is not None:
            # Exact: all that is uncertain is on the other side.
            behind = Estimate(claim.limit, 0.0, ahead.seeds)
        if ahead is not None and behind is not None:
            names = (noise, other_noise) if claim.row else (row, other)
            where = "" if claim.row or noise == "as found" else f"{noise}, "
            yield _Compared(ahead, behind, names, where)


_OURS = "kspr default"
_TOLD = "(t)"
"""Mark of methods that are told something that ours is not."""


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
        entries = [shown(result.estimate(data, noise, row, m), m) for noise, m in columns]
        # Columns of ours, which the paper does not have, come last.
        pairs = zip_longest(entries, reported.get(row, ()))
        entries = [ours if printed is None else f"{ours} ({printed})" for ours, printed in pairs]
        mark = f" {_TOLD}" if row in told else ""
        head = section if data is None else result.label_of(data)
        yield [head if place == 0 else "", f"{row}{mark}", *entries]


def _told(recipe: Recipe) -> list[str]:
    """Return the rows of methods that are told something that ours is not."""
    methods = {row: METHODS.get(variant.method or "") for row, variant in recipe.variants.items()}
    return [row for row, listed in methods.items() if listed is not None and listed.told]


def _standing(result: Reproduction) -> list[str]:
    """Return one sentence on where `kspr default` is ahead of the other methods, and where not.

    Only for tables with training methods of others: elsewhere variants are no rivals.
    """
    recipe, told = result.definition, _told(result.definition)
    rivals = recipe.shows == "table" and any(v.method for v in recipe.variants.values())
    if _OURS not in recipe.variants or not rivals or not result.trials:
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
            values = f"{shown(mean, 'accuracy')}, ours {shown(ours, 'accuracy')}"
            ahead.append(f"{row}{mark} on {result.label_of(data)}, {noise} ({values})")
    others = f" Ahead of it: {'; '.join(ahead)}." if ahead else ""
    return [f"`{_OURS}` has the highest accuracy in {n_first} of {len(places)} columns.{others}"]


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
    parts += _results(result, markdown_table)
    if recipe.claims:
        parts.append(markdown_table(["the paper says", "seen here", "because"], verdicts(result)))
    return "\n\n".join([*parts, *_origin(result)])


def render_text(result: Reproduction) -> str:
    """Return the same for a terminal, without a figure."""
    recipe = result.definition
    parts = [f"{recipe.place}: {recipe.title}", "\n".join(_facts(result))]
    parts += _results(result, _plain_table)
    said = [f"  {v.claim}\n    seen here: {v.seen}; {v.reason}" for v in verdicts(result)]
    if said:
        parts.append("\n".join(["The paper says:", *said]))
    return "\n\n".join([*parts, *_origin(result)])


def _results(result: Reproduction, draw: Callable[..., str]) -> Iterator[str]:
    """Yield the table, and where ours stands in it."""
    table = _table(result)
    if table is not None:
        yield draw(*table)
    yield from _standing(result)


def _facts(result: Reproduction) -> list[str]:
    """Return the conditions of the numbers: data, scale, seeds and marks, in sentences."""
    recipe = result.definition
    facts = [f"Scale {result.scale}: {recipe.scale(result.scale).note}"]
    facts += [f"{name} here: {what}." for name, what in result.data.items()]
    if not result.trials:
        facts.append("Nothing of it has been run; in parentheses are the paper's values.")
    facts += [f"{name} was not run: {reason}" for name, reason in result.lacking.items()]
    for reason in dict.fromkeys(result.failed.values()):
        names = [name for name, why in result.failed.items() if why == reason]
        more = f" and {_trials(len(names) - 1)} more" if len(names) > 1 else ""
        facts.append(f"{names[0]}{more} could not be run: {reason}")
    if result.planned is not None and len(result.trials) < result.planned:
        facts.append(f"{len(result.trials)} of {result.planned} trials are stored.")
    if not recipe.reported:
        kind = "table" if recipe.shows == "table" else "figure"
        facts.append(f"The paper prints no numbers for this {kind}.")
    if recipe.measures and result.trials:
        seeds = f"{result.seeds} seeds, ± their standard error" if result.seeds > 1 else "one seed"
        entries = "ours (the paper's)" if recipe.reported else "ours, rates in %"
        facts.append(f"Entries are {entries}; {seeds}.")
    if _told(recipe):
        facts.append(f"{_TOLD} marks methods that are told {_told_rate(result)}; ours is not.")
    if "q" in recipe.measures:
        facts.append("For q, ± is the standard deviation over pieces, as in the paper.")
        facts.append("A piece that reached no level counts as 50 % in q, as in the authors' code.")
    return facts


def _told_rate(result: Reproduction) -> str:
    """Return which noise rate methods are told that must be told one."""
    for trial in result.trials:
        if assumed := trial.values.get("assumed_rate"):
            return f"a noise rate of {assumed:.0%}, an assumption, as nobody knows the true one"
    return "the true noise rate" if result.trials else "the noise rate"


def _origin(result: Reproduction) -> Iterator[str]:
    """Yield the command, the dates, the machine and the code behind the numbers, if any."""
    if not result.trials:
        return
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
        yield text
        return
    rows = ", ".join(dict.fromkeys(trial.variant for trial in result.older))
    yield (
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
