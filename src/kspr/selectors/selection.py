"""The result of a selection: a value that says how it came about."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kspr.errors import InputError, MissingExtraError
from kspr.selectors.controls import ASSUMPTIONS
from kspr.selectors.controls.checked import Checked
from kspr.selectors.controls.transition import NoiseEstimate
from kspr.selectors.curve import Curve, trace_curve
from kspr.selectors.cut_groups import CutGroups, describe_cuts
from kspr.selectors.manifest import Manifest
from kspr.selectors.summary import Summary, summarise
from kspr.selectors.validation import check_rate

__all__ = ["Selection"]


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which samples can be trusted, and why.

    Arrays have one entry per sample, in the order of the data. Labels are the user's own.
    """

    label: np.ndarray
    clean_mask: np.ndarray
    q_value: np.ndarray | None
    """The smallest level at which each sample is kept, inf for never; None for SPR."""
    statistic: np.ndarray
    """What samples are ordered by. ``control="transition"``: the doubt, the chance that the label
    is wrong as far as the fit can tell. Else W: negative where the label is ahead of its
    knockoff, small where it fits well. For SPR, which compares nothing, the selection time."""
    selection_time: np.ndarray
    """How early a sample enters the model as an outlier: large is suspicious."""
    knockoff_label: np.ndarray | None
    """The label that the given one was compared with; None for SPR."""
    suggested_label: np.ndarray
    """The class that fits best; the given label where nothing fits better."""
    cut_group: np.ndarray
    """Position in `cut_groups` of the cut group that each sample was cut in."""
    cut_groups: CutGroups
    classes: np.ndarray
    manifest: Manifest
    noise: NoiseEstimate | None = None
    """How labels go wrong; None for SPR and the paper's controls, which do not ask."""
    checked: Checked | None = None
    """The rows that a person has checked, if `fit` was told."""

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
        return suspects[np.argsort(-self.suspicion[suspects], kind="stable")]

    @property
    def control(self) -> str | None:
        """How the error rate was estimated; None for SPR, which has none."""
        return None if self.q_value is None else str(self.manifest.parameters["control"])

    @property
    def assumption(self) -> str | None:
        """What must be true for the error rate to hold, in a sentence; None without a rate."""
        if self.checked is not None and self.checked.calibrate:
            return (
                f"The {len(self.checked.rows):,} checked rows were drawn at random; then the error "
                f"rate holds with {self.checked.confidence:.0%} confidence, whatever the noise is."
            )
        return None if self.control is None else ASSUMPTIONS[self.control]

    @property
    def _doubt(self) -> np.ndarray:
        """What a single cut would go by: samples in the order of their trust."""
        if self.control == "transition":
            return self.statistic
        # Labels that lost come after all that won.
        return np.where(self.statistic < 0, -self.statistic, np.inf)

    @property
    def suspicion(self) -> np.ndarray:
        """What ranks suspects, large first: the doubt where there is one, else the time."""
        return self.statistic if self.control == "transition" else self.selection_time

    def at(self, q: float) -> "Selection":
        """Return the selection at another fixed level, without fitting again.

        A cut group that cannot reach `q` keeps nothing and has the status ``empty``.
        """
        q = check_rate("q", q)
        if self.q_value is None:
            raise InputError(
                "at(q) needs an error rate, which SPR does not have. Use KnockoffsSPR, or fit SPR "
                "with another clean_ratio."
            )
        if self.checked is None or not self.checked.calibrate:
            keep, name = self.q_value <= q, "controlled"
        else:
            cut = self.checked.cut(self._doubt, self.q_value, q).cut
            keep, name = self._doubt <= cut, "checked"
        reached = np.bincount(self.cut_group[keep], minlength=len(self.cut_groups)) > 0
        cut_groups = describe_cuts(
            self,
            keep,
            asked=q,
            level=np.where(reached, q, np.nan),
            status=np.where(reached, name, "empty"),
        )
        if self.checked is not None:
            keep = self.checked.applied(keep)
            cut_groups = replace(
                cut_groups, n_kept=np.bincount(self.cut_group[keep], minlength=len(cut_groups))
            )
        manifest = replace(
            self.manifest, parameters={**self.manifest.parameters, "q": q, "level": "fixed"}
        )
        return replace(self, clean_mask=keep, cut_groups=cut_groups, manifest=manifest)

    def curve(self) -> Curve:
        """Return what every level would keep, without fitting again; print it to read it.

        It is the control's own curve: checked rows play no part in it.
        """
        if self.q_value is None:
            raise InputError("curve() needs an error rate, which SPR does not have.")
        n_right = None if self.noise is None else len(self) * (1 - self.noise.rate)
        return trace_curve(self.q_value, self.cut_group, n_right)

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

        The directory holds ``samples.parquet``, ``cut_groups.parquet`` and ``manifest.json``. It
        appears whole or not at all.
        """
        from kspr.selectors._storage import save_selection

        return save_selection(self, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Selection":
        """Read a selection that `save` has written."""
        from kspr.selectors._storage import load_fields

        return cls(**load_fields(Path(path)))

    def __repr__(self) -> str:
        return self.summary().headline()

    def _repr_html_(self) -> str:
        return self.summary().to_html()

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {
            "label": self.label,
            "clean": self.clean_mask,
            **({} if self.q_value is None else {"q_value": self.q_value}),
            "statistic": self.statistic,
            "selection_time": self.selection_time,
        }
        if self.knockoff_label is not None:
            columns["knockoff_label"] = self.knockoff_label
        return {
            **columns,
            "suggested_label": self.suggested_label,
            "piece": self.cut_groups.piece[self.cut_group],
            "half": self.cut_groups.half[self.cut_group],
            "status": self.cut_groups.status[self.cut_group],
        }
