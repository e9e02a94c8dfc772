"""The result of a selection: what is kept, in which order, and how that was decided."""

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
from kspr.selectors.relabelling import THRESHOLD, Relabelling, relabelling
from kspr.selectors.summary import Summary, summarise
from kspr.selectors.validation import check_rate

__all__ = ["Selection"]


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which samples can be trusted, and how that was decided.

    `KnockoffsSPR` and `SPR` leave one in ``selection_``. It is a value: nothing in it changes, and
    `at` returns a new one. Arrays have one entry per sample, in the order of the data; labels are
    of the type that `fit` was given.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kspr import KnockoffsSPR
    >>> X, y = load_digits(return_X_y=True)
    >>> y_true = y.copy()
    >>> y[::10] = 9 - y[::10]
    >>> selection = KnockoffsSPR(q=0.01).fit(X, y).selection_
    >>> bool(selection.clean_mask[::10].mean() < 0.1)
    True
    >>> bool((selection.suggested_label[::10] == y_true[::10]).mean() > 0.9)
    True
    """

    label: np.ndarray
    """The given labels."""
    clean_mask: np.ndarray
    """Whether each sample is kept."""
    q_value: np.ndarray | None
    """The smallest level at which each sample is kept, inf for never; None for SPR."""
    statistic: np.ndarray
    """What samples are ordered by. ``control="transition"``: the doubt, the estimated probability
    that the label is wrong. Other controls: W, negative where the label is ahead of its knockoff,
    small in size where it fits well. SPR: the selection time."""
    selection_time: np.ndarray
    """The largest penalty at which the sample still has a mean shift: large is suspicious."""
    knockoff_label: np.ndarray | None
    """The label that the given one was compared with; None for SPR."""
    suggested_label: np.ndarray
    """The class that fits best; the given label where no other fits better."""
    cut_group: np.ndarray
    """Position in `cut_groups` of the cut group that each sample belongs to."""
    cut_groups: CutGroups
    """What was cut together: sizes, levels asked for and reached, status."""
    classes: np.ndarray
    """The classes, sorted."""
    manifest: Manifest
    """Parameters, seed, versions, and a fingerprint of the data."""
    noise: NoiseEstimate | None = None
    """How labels go wrong; None for SPR and the paper's controls, which do not estimate it."""
    checked: Checked | None = None
    """The rows that a person has checked, where `fit` was given them."""
    suggestion_probability: np.ndarray | None = None
    """Chance that `suggested_label` is the true label; None where noise is not estimated."""

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
        """What must be true for the error rate to hold, in a sentence; None without one."""
        if self.checked is not None and self.checked.calibrate:
            return (
                f"The {len(self.checked.rows):,} checked rows were drawn at random; then the error "
                f"rate holds with {self.checked.confidence:.0%} confidence, whatever the noise is."
            )
        return None if self.control is None else ASSUMPTIONS[self.control]

    @property
    def _doubt(self) -> np.ndarray:
        """What one cut-off for all rows compares: small for rows to keep first."""
        if self.control == "transition":
            return self.statistic
        # Labels that lost come after all that won.
        return np.where(self.statistic < 0, -self.statistic, np.inf)

    @property
    def suspicion(self) -> np.ndarray:
        """What suspects are ranked by, largest first: the doubt, or else the selection time."""
        return self.statistic if self.control == "transition" else self.selection_time

    def at(self, q: float) -> "Selection":
        """Return the selection at another level, without fitting again.

        Parameters
        ----------
        q
            The error rate. A cut group that cannot reach it keeps nothing, and has the status
            ``"empty"``.

        Returns
        -------
        Selection
            A new selection; this one does not change.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from kspr import KnockoffsSPR
        >>> X, y = load_digits(return_X_y=True)
        >>> y[::10] = 9 - y[::10]
        >>> selection = KnockoffsSPR(q=0.01).fit(X, y).selection_
        >>> len(selection.at(0.05).clean_indices) > len(selection.clean_indices)
        True
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
        # Before checked rows are added: a row that a person kept does not make its group reach q.
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
            # Only the counts: levels and cut-offs are those of the cut, without a person's answers.
            cut_groups = replace(
                cut_groups, n_kept=np.bincount(self.cut_group[keep], minlength=len(cut_groups))
            )
        # The manifest describes this selection, so that a new fit would give the same.
        manifest = replace(
            self.manifest, parameters={**self.manifest.parameters, "q": q, "level": "fixed"}
        )
        return replace(self, clean_mask=keep, cut_groups=cut_groups, manifest=manifest)

    def curve(self) -> Curve:
        """Return what every level would keep, without fitting again; print it to read it.

        The curve is that of the control: checked rows are not used.

        Returns
        -------
        Curve
            Levels, how many samples each keeps, and the estimated FSR of that.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from kspr import KnockoffsSPR
        >>> curve = KnockoffsSPR(cut="pooled").fit(*load_digits(return_X_y=True)).selection_.curve()
        >>> bool(curve.share_kept[-1] == 1.0)
        True
        """
        if self.q_value is None:
            raise InputError("curve() needs an error rate, which SPR does not have.")
        n_right = None if self.noise is None else len(self) * (1 - self.noise.rate)
        return trace_curve(self.q_value, self.cut_group, n_right)

    def relabel(self, threshold: float = THRESHOLD) -> Relabelling:
        """Return which labels to change, which to look at and which to leave.

        Parameters
        ----------
        threshold
            Least probability of a suggestion that replaces the label of a suspect. The default
            improved the labels under every noise that was measured.

        Returns
        -------
        Relabelling
            A pile for every sample, the new labels, and the expected gain.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from kspr import KnockoffsSPR
        >>> X, y = load_digits(return_X_y=True)
        >>> y[::10] = 9 - y[::10]
        >>> found = KnockoffsSPR(q=0.01).fit(X, y).selection_.relabel()
        >>> print(found)  # doctest: +ELLIPSIS
        Change ... labels: of these about ... become right, and about ... were right before. ...
        """
        return relabelling(self, threshold)

    def summary(self) -> Summary:
        """Return the selection in a few numbers, overall and per class; print it to read it."""
        return summarise(self)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a data frame with one row per sample.

        Parameters
        ----------
        backend
            The library of the frame: ``"pandas"``, ``"polars"`` or ``"pyarrow"``.

        Returns
        -------
        data frame
            Columns ``label``, ``clean``, ``q_value``, ``statistic``, ``selection_time``,
            ``knockoff_label``, ``suggested_label``, ``suggestion_probability``, ``piece``,
            ``half`` and ``status``; SPR has no ``q_value`` and no ``knockoff_label``, and only
            ``control="transition"`` has ``suggestion_probability``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from kspr import SPR
        >>> selection = SPR().fit(*load_digits(return_X_y=True)).selection_
        >>> selection.to_frame("pyarrow").column_names[:3]
        ['label', 'clean', 'statistic']
        """
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
        """Write the selection to a directory, and return its path.

        Parameters
        ----------
        path
            Directory to make. It holds ``samples.parquet``, ``cut_groups.parquet`` and
            ``manifest.json``, and appears whole or not at all.
        overwrite
            Whether to replace a selection that was saved there before.

        Returns
        -------
        pathlib.Path
            The directory.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from kspr import SPR
        >>> selection = SPR().fit(*load_digits(return_X_y=True)).selection_
        >>> folder = selection.save(f"{tempfile.mkdtemp()}/digits")
        >>> sorted(file.name for file in folder.iterdir())
        ['cut_groups.parquet', 'manifest.json', 'samples.parquet']
        """
        # Imported here: it needs pyarrow, which fitting does not.
        from kspr.selectors._storage import save_selection

        return save_selection(self, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path) -> "Selection":
        """Return a selection that `save` has written.

        Parameters
        ----------
        path
            The directory.

        Returns
        -------
        Selection
            Equal to the one that was saved.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from kspr import SPR
        >>> saved = SPR().fit(*load_digits(return_X_y=True)).selection_
        >>> folder = saved.save(f"{tempfile.mkdtemp()}/digits")
        >>> len(Selection.load(folder)) == len(saved)
        True
        """
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
            **(
                {}
                if self.suggestion_probability is None
                else {"suggestion_probability": self.suggestion_probability}
            ),
            "piece": self.cut_groups.piece[self.cut_group],
            "half": self.cut_groups.half[self.cut_group],
            "status": self.cut_groups.status[self.cut_group],
        }
