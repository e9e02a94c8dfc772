"""The result of a selection: a value that says how it came about."""

from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.core.cutoffs import Cut, cut_at
from kspr.errors import InputError, MissingExtraError
from kspr.selectors._manifest import Manifest
from kspr.selectors._summary import Summary, summarise
from kspr.selectors._validation import check_rate

__all__ = ["Cells", "Selection"]


@dataclass(frozen=True, eq=False)
class Cells:
    """One entry per cell: what was cut together, and what the cut says of it.

    A cell is a class in one half of a piece or, for a pooled cut, a whole half; SPR knows no
    halves, and all of its cells have half 0.
    """

    piece: np.ndarray
    half: np.ndarray
    class_code: np.ndarray
    """Position in `Selection.classes`; -1 for a pooled cell."""
    n: np.ndarray
    n_kept: np.ndarray
    q_asked: np.ndarray
    q_reached: np.ndarray
    """The level that the cut meets; nan where it meets none."""
    estimated_fsr: np.ndarray
    """The estimate at the cut-off; inf where nothing is kept at a level."""
    smallest_q: np.ndarray
    """The smallest level that this cell could reach at all."""
    cutoff: np.ndarray
    status: np.ndarray
    """``controlled``, ``raised``, ``fallback``, ``empty``, or ``share`` for a fixed share."""
    factor: np.ndarray
    """What the bound multiplies q by: 1, or Theorem 2's."""

    def __len__(self) -> int:
        return len(self.n)


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which samples can be trusted, and why.

    Arrays have one entry per sample, in the order of the data. Labels are the user's own.
    """

    label: np.ndarray
    clean_mask: np.ndarray
    statistic: np.ndarray
    """W: negative where the label is ahead of its knockoff, small where it fits well.
    For SPR, which compares nothing, the selection time."""
    selection_time: np.ndarray
    """How early a sample enters the model as an outlier: large is suspicious."""
    knockoff_label: np.ndarray | None
    """The label that the given one was compared with; None for SPR."""
    suggested_label: np.ndarray
    """The class that fits best; the given label where nothing fits better."""
    cell: np.ndarray
    """Position in `cells` of the cell that each sample was cut in."""
    cells: Cells
    classes: np.ndarray
    manifest: Manifest

    def __len__(self) -> int:
        return len(self.clean_mask)

    @property
    def clean_indices(self) -> np.ndarray:
        """Row numbers of the samples that are kept, ascending."""
        return np.flatnonzero(self.clean_mask)

    @property
    def suspect_indices(self) -> np.ndarray:
        """Row numbers of all other samples, the most suspicious first."""
        suspects = np.flatnonzero(~self.clean_mask)
        return suspects[np.argsort(-self.selection_time[suspects], kind="stable")]

    def at(self, q: float) -> "Selection":
        """Return the selection at another fixed level, without fitting again.

        A cell that cannot reach `q` keeps nothing and has the status ``empty``.
        """
        q = check_rate("q", q)
        if self.knockoff_label is None:
            raise InputError(
                "at(q) needs a comparison with knockoff labels, which SPR does not make. "
                "Use KnockoffsSPR, or fit SPR with another clean_ratio."
            )
        cut = cut_at(self.statistic, self.cell, len(self.cells), q * self.cells.factor)
        cells = cells_at_fixed_level(self.cells, self.cell, cut, q)
        manifest = replace(
            self.manifest, parameters={**self.manifest.parameters, "q": q, "level": "fixed"}
        )
        return replace(self, clean_mask=cut.keep, cells=cells, manifest=manifest)

    def summary(self) -> Summary:
        """Return the selection in a few numbers, overall and per class; print it to read it."""
        return summarise(self)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return one row per sample as a data frame of `backend`: pandas, polars or pyarrow."""
        import narwhals as nw

        try:
            return nw.from_dict(self._columns(), backend=backend).to_native()
        except ModuleNotFoundError as error:
            raise MissingExtraError(f"to_frame(backend={backend!r})", backend) from error
        except (TypeError, ValueError) as error:
            raise InputError(
                f"backend must be 'pandas', 'polars' or 'pyarrow', got {backend!r}."
            ) from error

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the selection to the directory `path`, and return it.

        The directory holds ``samples.parquet``, ``cells.parquet`` and ``manifest.json``. It
        appears whole or not at all.
        """
        from kspr.selectors._storage import save_selection

        return save_selection(self, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Selection":
        """Read a selection that `save` has written."""
        from kspr.selectors._storage import load_selection

        return load_selection(Path(path))

    def __repr__(self) -> str:
        return self.summary().headline()

    def _repr_html_(self) -> str:
        return self.summary().to_html()

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "label": self.label,
            "clean": self.clean_mask,
            "statistic": self.statistic,
            "selection_time": self.selection_time,
        }
        if self.knockoff_label is not None:
            columns["knockoff_label"] = self.knockoff_label
        return {
            **columns,
            "suggested_label": self.suggested_label,
            "piece": self.cells.piece[self.cell],
            "half": self.cells.half[self.cell],
            "status": self.cells.status[self.cell],
        }


def cells_at_fixed_level(cells: Cells, cell: np.ndarray, cut: Cut, q: float) -> Cells:
    """Return what a cut at the fixed level `q` says of each cell."""
    reached = ~np.isnan(cut.level)
    return replace(
        cells,
        n_kept=np.bincount(cell[cut.keep], minlength=len(cells)),
        q_asked=np.full(len(cells), q),
        q_reached=np.where(reached, q, np.nan),
        estimated_fsr=cut.estimate / cells.factor,
        smallest_q=cut.smallest / cells.factor,
        cutoff=cut.T,
        status=np.where(reached, "controlled", "empty"),
    )


def cell_columns(cells: Cells) -> dict[str, np.ndarray]:
    """Return the table of cells, column by column."""
    return {field.name: getattr(cells, field.name) for field in fields(cells)}
