"""What a comparison of methods found, as a value."""

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["REFERENCES", "Cell", "Comparison"]

NO_CLEANING, ORACLE = "no cleaning", "oracle"
REFERENCES = (NO_CLEANING, ORACLE)
"""What every method lies between: all labels kept, and exactly the right ones."""


@dataclass(frozen=True)
class Cell:
    """One method on one data set."""

    method: str
    n_kept: int
    fsr: float
    recall: float
    f1: float
    auroc: float | None
    """Chance that a wrong label is ranked as more suspicious than a right one."""
    noise_rate: float | None
    """The share of wrong labels that the method estimates."""
    noise_rate_error: float | None
    """That estimate less the true share."""
    seconds: float
    """Everything that the method needs, cross-validation and neighbours included."""
    memory: int | None
    """Bytes by which the process grew at its peak."""
    accuracy: float | None
    """Of a classifier that is trained on what the method keeps, on the test set."""
    told: bool = False
    """Whether the method was told the true share of wrong labels."""


_COLUMNS = ("kept", "FSR", "recall", "F1", "AUROC", "rate error", "seconds", "MB", "accuracy")


@dataclass(frozen=True)
class Comparison:
    """Methods side by side; print it to read it."""

    n: int
    n_features: int
    n_classes: int
    wrong: float
    """The true share of wrong labels."""
    q: float
    seed: int
    cells: tuple[Cell, ...]
    versions: dict[str, str]

    def __getitem__(self, method: str) -> Cell:
        """Return the cell of a method."""
        for cell in self.cells:
            if cell.method == method:
                return cell
        raise KeyError(method)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [_texts(cell) for cell in self.cells]
        tested = any(cell.accuracy is not None for cell in self.cells)
        shown = range(len(_COLUMNS) - (not tested))
        first = max(len("method"), *(len(_name(cell)) for cell in self.cells))
        widths = [max(len(_COLUMNS[k]), *(len(row[k]) for row in rows)) for k in shown]
        lines = [
            f"{name:<{first}}" + "".join(f"  {row[k]:>{widths[k]}}" for k in shown)
            for name, row in zip(
                ("method", *map(_name, self.cells)), (_COLUMNS, *rows), strict=True
            )
        ]
        return "\n".join([self._headline(), "", *lines, *self._notes()])

    def _headline(self) -> str:
        return (
            f"{self.n:,} labels of {self.n_classes} classes, {self.wrong:.1%} of them wrong; "
            f"{self.n_features} features; q = {self.q:g}"
        )

    def _notes(self) -> list[str]:
        if not any(cell.told for cell in self.cells):
            return []
        return ["", "* is told the true share of wrong labels"]


def _name(cell: Cell) -> str:
    return cell.method + "*" * cell.told


def _texts(cell: Cell) -> tuple[str, ...]:
    reference = cell.method in REFERENCES
    return (
        f"{cell.n_kept:,}",
        *(f"{value:.3f}" for value in (cell.fsr, cell.recall, cell.f1)),
        _or_dash(cell.auroc, ".3f"),
        _or_dash(cell.noise_rate_error, "+.3f"),
        _or_dash(None if reference else cell.seconds, ".2f"),
        _or_dash(None if cell.memory is None else cell.memory / 2**20, ".0f"),
        _or_dash(cell.accuracy, ".3f"),
    )


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
