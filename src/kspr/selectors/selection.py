"""The result of a selection: what is kept, in which order, and how that was decided."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kspr.core.duplicates import contradicted
from kspr.errors import InputError, MissingExtraError
from kspr.selectors.checked import (
    Checked,
    Drawn,
    Guarantee,
    Ranking,
    add_checks,
    next_rows,
    promise,
)
from kspr.selectors.cut_groups import Curve, CutGroups, cut_at, trace_curve, uncut
from kspr.selectors.estimates import Estimates, estimate, noise_rate
from kspr.selectors.options import DEFAULT_Q, DOUBTING
from kspr.selectors.plan import THRESHOLD, Plan, Relabelling, plan, relabelling
from kspr.selectors.provenance import ASSUMPTIONS, SEEN_LABELS, Manifest, NoiseEstimate
from kspr.selectors.summary import Summary, summarise
from kspr.selectors.validation import check_count, check_rate
from kspr.selectors.verdict import Ends

if TYPE_CHECKING:
    from kspr.report.plots import Plots


@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """Which samples can be trusted, and how that was decided.

    Every selector leaves one in ``selection_``. It is a value: nothing in it changes, and `at`
    returns a new one. Arrays have one entry per sample, in the order of the data; codes are
    positions in `classes`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kspr import KnockoffsSPR
    >>> X, y_true = load_digits(return_X_y=True)
    >>> y = np.where(np.arange(len(y_true)) % 5 == 0, 9 - y_true, y_true)
    >>> selection = KnockoffsSPR(q=0.01).fit(X, y).selection_
    >>> bool(selection.clean_mask[::5].mean() < 0.1)
    True
    >>> bool((selection.suggested_label[::5] == y_true[::5]).mean() > 0.9)
    True
    >>> len(selection.at(0.05).clean_indices) > len(selection.clean_indices)
    True
    >>> print(selection.relabel())  # doctest: +ELLIPSIS
    Change ... labels: of these about ... become right, and about ... were right before. ...

    With a hundred answers of a person, the error rate holds whatever the noise is:

    >>> rows = selection.draw_checks(100, q=0.05)
    >>> checked = selection.with_checks(rows, y_true[rows], q=0.05)
    >>> print(checked.summary().headline())  # doctest: +ELLIPSIS
    KnockoffsSPR: ... of 1,797 labels kept (...) at q = 0.05
    One threshold for all 10 classes; set by rows that a person has checked
    >>> print(checked.estimates())  # doctest: +ELLIPSIS
    By 100 checked rows and the fit, with intervals of 95 %:
      wrong labels among the ... rows of the pool: ...
    """

    label_code: np.ndarray
    """The given labels, as codes."""
    clean_mask: np.ndarray
    """Whether each sample is kept."""
    q_value: np.ndarray | None
    """The smallest level at which each sample is kept, inf for never; None without levels: for SPR
    and `DoubtSelector` before rows are checked."""
    doubt: np.ndarray
    """What a threshold is set on: small for samples to keep first, inf for those that none keeps.
    The estimated probability that the label is wrong, where that is estimated; else the selection
    time, and inf for labels that lose to their knockoff."""
    selection_time: np.ndarray
    """The largest penalty at which the sample still has a mean shift: large is suspicious."""
    suggested_code: np.ndarray
    """The class that fits best; the given label where no other fits better."""
    cut_group: np.ndarray
    """Position in `cut_groups` of the cut group that each sample belongs to."""
    cut_groups: CutGroups
    """What was cut together: sizes, levels asked for and reached, status."""
    classes: np.ndarray
    """The classes, sorted."""
    manifest: Manifest
    """Parameters, seed, versions, and a fingerprint of the data."""
    knockoff_code: np.ndarray | None = None
    """The label that the given one was compared with; None where there is none."""
    noise: NoiseEstimate | None = None
    """How labels go wrong; None for SPR and the paper's controls, which do not estimate it."""
    checked: Checked | None = None
    """The rows that a person has checked, and the answers; None without any."""
    suggestion_probability: np.ndarray | None = None
    """Chance that `suggested_label` is the true label; None where noise is not estimated."""
    doubt_by_class: np.ndarray | None = None
    """Chance that the label is wrong if mistakes depend on the class only; see `ends`."""
    doubt_by_people: np.ndarray | None = None
    """Chance that the label is wrong if people mistake what looks alike; see `ends`."""
    duplicate_set: np.ndarray | None = None
    """Number of the set of copies that each sample belongs to, -1 for none; None where no copies
    were found. Equal or nearly equal features make copies."""

    @classmethod
    def uncut(
        cls,
        codes: np.ndarray,
        classes: np.ndarray,
        *,
        cut_group: np.ndarray,
        table: np.ndarray,
        **columns: Any,
    ) -> "Selection":
        """Return the selection before it is cut: the levels of its samples are known.

        `codes` are the given labels. Row k of `table` is piece, half and class of cut group k; see
        `CutGroups`. `columns` are further fields.
        """
        # Columns of all rows are what is left to fill the memory.
        small = np.min_scalar_type(max(0, len(classes) - 1))
        for name in ("suggested_code", "knockoff_code"):
            if columns.get(name) is not None:
                columns[name] = columns[name].astype(small, copy=False)
        return cls(
            label_code=codes.astype(small, copy=False),
            clean_mask=np.zeros(len(codes), dtype=bool),
            classes=classes,
            cut_group=cut_group,
            cut_groups=uncut(table, cut_group),
            **columns,
        )

    @cached_property
    def label(self) -> np.ndarray:
        """The given labels."""
        return np.asarray(self.classes[self.label_code])

    @cached_property
    def suggested_label(self) -> np.ndarray:
        """The class that fits best; the given label where no other fits better."""
        return np.asarray(self.classes[self.suggested_code])

    @cached_property
    def knockoff_label(self) -> np.ndarray | None:
        """The label that the given one was compared with; None where there is none."""
        return None if self.knockoff_code is None else self.classes[self.knockoff_code]

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

    def suspects(self, frame: Any) -> Any:
        """Return the suspects among the rows of a data frame, the most suspicious first.

        `frame` is one of pandas, polars or pyarrow with the rows that were fitted, in their order,
        whatever its index says. The result is of the same library.
        """
        import narwhals as nw

        try:
            rows = nw.from_native(frame, eager_only=True)
        except TypeError as error:
            raise InputError(
                f"suspects() takes a data frame in memory, got {type(frame).__name__}. Of an array "
                "take X[selection.suspect_indices]."
            ) from error
        if len(rows) != len(self):
            raise InputError(
                f"The data frame has {len(rows):,} rows but {len(self):,} were fitted. Pass the "
                "rows that were fitted, in their order."
            )
        return rows[self.suspect_indices.tolist()].to_native()

    @property
    def control(self) -> str | None:
        """How the error rate was estimated; None for SPR and `DoubtSelector`, which have none."""
        return self.manifest.parameters.get("control")

    @property
    def assumption(self) -> str | None:
        """What must be true for the error rate to hold, in a sentence; None without one."""
        if self.checked is not None and self.checked.calibrate:
            return promise(self.checked)
        if self.control is None:
            return None
        return SEEN_LABELS if self.manifest.seen_labels else ASSUMPTIONS[self.control]

    @property
    def doubt_is_chance(self) -> bool:
        """Whether `doubt` is the estimated chance that the label is wrong."""
        return self.control in DOUBTING

    @property
    def suspicion(self) -> np.ndarray:
        """What suspects are ranked by, largest first: the doubt, or else the selection time."""
        return self.doubt if self.doubt_is_chance else self.selection_time

    def at(self, q: float) -> "Selection":
        """Return the selection at the error rate `q`, without fitting again.

        A cut group that cannot reach it keeps nothing, and has the status ``"empty"``. This
        selection does not change.
        """
        q = check_rate("q", q)
        if self.q_value is None:
            raise InputError(
                f"at(q) needs an error rate, which {self.manifest.method} does not have before "
                "rows are checked: draw them with draw_checks, and pass the answers to "
                "with_checks."
            )
        return cut_at(self, self.q_value <= q, q)

    def draw_checks(
        self, n: int, *, q: float | None = None, seed: int = 0, groups: Any = None
    ) -> np.ndarray:
        """Return row numbers for a person to check, drawn at random from those that could be kept.

        They are in the order in which to check them, and go to `with_checks`. A hundred are enough
        for most purposes. The pool that they come from is fixed by `q` (None for the one that was
        asked for): the rows that would be kept at twice that level, and at least 1,000. Its order
        is fixed by `seed`. So 50 rows, and 50 more once these are checked, are one draw of 100.

        With `groups`, an entry per row such as the image of each box, all other rows of the groups
        that the `n` rows belong to follow them. The first `n` alone are drawn at random, and give
        the error rate; answers about the rest go to `with_checks` afterwards, as ``"chosen"``.
        """
        q = self._asked(q)
        rows = next_rows(self._ranking(q), n, q, seed)
        if groups is None:
            return rows
        group = np.asarray(groups)
        if group.shape != self.clean_mask.shape:
            raise InputError(f"groups must hold one entry for each of the {len(self):,} rows.")
        same = np.isin(group, group[rows])
        same[rows] = False
        return np.append(rows, np.flatnonzero(same))

    def with_checks(
        self,
        rows: Any,
        true_labels: Any,
        *,
        q: float | None = None,
        guarantee: Guarantee = "mean",
        confidence: float = 0.95,
        drawn: Drawn = "pool",
        seed: int = 0,
    ) -> "Selection":
        """Return the selection with a person's answers, which move the threshold without a new fit.

        Then the error rate holds whatever the noise is. A checked row is kept if its label is
        right, and not otherwise; its true label becomes its suggested label.

        Parameters
        ----------
        rows : array-like of int
            The rows that were checked: all that `draw_checks` gave, in any order.
        true_labels : array-like
            Their true labels. A label that is none of the classes says that the row belongs to no
            class; None that nobody can tell, which counts as wrong.
        q
            The error rate, as for `draw_checks`.
        guarantee
            ``"mean"``: the share of wrong labels among the kept ones is at most `q` on average over
            draws, with a number of checks that was set beforehand. ``"confidence"``: it is at most
            `q` with the probability `confidence`, for a number of checks that was set beforehand;
            that takes several times the checks. ``"anytime"``: the same, and you may stop whenever
            you like what you see. ``"anywhere"``: as ``"confidence"``, for all q at once, so that
            `at` may be called until you like the result.
        confidence
            Probability for all but ``"mean"``.
        drawn
            ``"pool"``: `rows` come from `draw_checks` with the same `q` and `seed`. ``"all"``: they
            were drawn at random from all rows. ``"chosen"``: neither; then they are kept or not,
            and the threshold stays where it is.
        seed
            The seed that `draw_checks` was given.
        """
        stays = drawn == "chosen" and q is None
        # No level is needed: such rows do not move the threshold.
        q = self.manifest.parameters.get("q", DEFAULT_Q) if stays else self._asked(q)
        checked, q_value = add_checks(
            self._ranking(q),
            rows,
            true_labels,
            drawn=drawn,
            q=q,
            guarantee=guarantee,
            confidence=confidence,
            seed=seed,
        )
        told = checked.true_code >= 0
        suggested = self.suggested_code.copy()
        suggested[checked.rows[told]] = checked.true_code[told]
        chance = self.suggestion_probability
        if chance is not None:
            chance = chance.copy()
            # What a person says is sure; nothing is known where nobody can tell.
            chance[checked.rows] = np.where(told, 1.0, 0.0)
        answered = replace(
            self,
            q_value=q_value,
            suggested_code=suggested,
            suggestion_probability=chance,
            noise=_noise(self, checked),
            checked=checked,
        )
        if q_value is not None and (checked.calibrate or not stays):
            return answered.at(q)
        # No cut is set: only the checked rows change.
        keep = self.clean_mask.copy()
        keep[checked.rows] = checked.right
        n_kept = np.bincount(self.cut_group[keep], minlength=len(self.cut_groups))
        return replace(
            answered, clean_mask=keep, cut_groups=replace(self.cut_groups, n_kept=n_kept)
        )

    def forecast(
        self,
        n: int,
        *,
        q: float | None = None,
        guarantee: Guarantee = "mean",
        confidence: float = 0.95,
    ) -> float:
        """Return the share of the right labels that `n` checks in all can be expected to keep.

        A forecast, not a promise: it takes the fit's own chances of wrong labels, corrected by the
        answers that are there; `n` counts these too. The rest is as for `with_checks`.
        """
        from kspr.selectors.estimates import expected_recall

        check_count("n", n, 1)
        return expected_recall(self, n, self._asked(q), guarantee, confidence)

    def checks_needed(
        self,
        *,
        q: float | None = None,
        guarantee: Guarantee = "mean",
        confidence: float = 0.95,
    ) -> int | None:
        """Return about how many checks reach `q` without losing much that could be kept.

        They can be expected to keep nine tenths of the right labels that the best threshold at `q`
        would keep. A `forecast`, not a promise. None if it is above a thousand, or nothing can be
        kept.
        """
        from kspr.selectors.estimates import checks_needed

        return checks_needed(self, self._asked(q), guarantee, confidence)

    def plan(self, max_wrong: float, confidence: float = 0.95) -> Plan:
        """Return which rows a person must label, so that few of all labels are wrong in the end.

        The others keep their labels. It takes rows that were drawn at random and checked: rows of
        less doubt than some wrong ones among them need not be labelled. Draw from all rows for
        this: rows outside of the pool that checks were drawn from must be labelled.

        `max_wrong` is the largest share of wrong labels in the finished data set, to be set before
        you look. `confidence` is the probability of that over draws of checked rows, whatever the
        noise is. Print the result to read it.
        """
        return plan(self, max_wrong, confidence)

    def estimates(self) -> Estimates:
        """Return noise rate, recall and error rates per class, by checked rows and the fit.

        They are about the rows that the checked ones were drawn from, and need no guarantee: so
        they serve more than the checked rows alone could, by how wrong the fit thought the labels
        of all rows. Intervals are of 95 %; their coverage is measured. Print them to read them.
        """
        return estimate(self)

    def _ranking(self, q: float) -> Ranking:
        """Return what checks need: the order of the rows, of which some cannot be kept at `q`."""
        level = self.q_value if self.checked is None else self.checked.level
        doubt, apart = self.doubt, self.cut_groups.class_code >= 0
        if level is not None and apart.any() and not apart.all():
            # Of a class that is cut by itself, answers about all rows say next to nothing.
            doubt = np.where(apart[self.cut_group] & (level > q), np.inf, doubt)
        if self.duplicate_set is not None:
            # Checks move the threshold; no label that fits worse than a copy's comes back.
            codes = self.label_code.astype(np.intp)
            lost = contradicted(self.duplicate_set, codes, self.selection_time)
            doubt = np.where(lost, np.inf, doubt)
        return Ranking(self.label_code, self.classes, doubt, level, self.checked)

    def _asked(self, q: float | None) -> float:
        """Return `q`, or else the level that was asked for."""
        if q is not None:
            return check_rate("q", q)
        asked = self.manifest.parameters.get("q")
        if asked is None:
            raise InputError("SPR has no error rate of its own: pass q.")
        return float(asked)

    def curve(self) -> Curve:
        """Return what every level would keep, without fitting again; print it to read it."""
        if self.q_value is None:
            raise InputError(
                f"curve() needs an error rate, which {self.manifest.method} does not have before "
                "rows are checked."
            )
        chance = self.doubt if self.doubt_is_chance else None
        return trace_curve(self.q_value, self.cut_group, chance)

    def ends(self) -> Ends:
        """Return the share of wrong labels among the kept ones under either kind of mistake.

        The labels do not say for sure how people came to err. If mistakes depend on the class only,
        the share is about the first; if people mistake what looks alike, about the second. Checked
        rows settle it.

        They are estimates, not bounds; nan where nothing is kept. Print them to read them.
        """
        from kspr.selectors.verdict import ends

        return ends(self)

    def relabel(self, threshold: float = THRESHOLD) -> Relabelling:
        """Return which labels to change, which to look at and which to leave; print it to read it.

        The label of a suspect is changed if its suggestion has at least the probability
        `threshold`. The default improved the labels under every noise that was measured.
        """
        return relabelling(self, threshold)

    def summary(self, items: Any = None) -> Summary:
        """Return the selection in a few numbers, overall and per class; print it to read it.

        `items` are the texts of the rows, or their images, as for `report`: in a notebook, the
        twelve worst suspects are then shown with their labels.
        """
        if items is None:
            return summarise(self)
        from kspr.report import check_extra

        check_extra()
        from kspr.report.plots import thumbnails

        return replace(summarise(self), worst=thumbnails(self, items))

    @property
    def plot(self) -> "Plots":
        """Figures of the selection, on Matplotlib axes.

        ``plot.doubt()``, ``plot.curve()`` and ``plot.confusion()`` take axes as `ax` and return
        them; ``plot.suspects(images)`` shows the worst suspects with their labels.
        """
        # Upwards, as `report`: drawing needs packages that selecting does not.
        from kspr.report import check_extra

        check_extra()
        from kspr.report.plots import Plots

        return Plots(self)

    def report(self, path: str | Path, items: Any = None, *, title: str = "Labels") -> Path:
        """Write the selection as one HTML file to read, print and pass on; return its path.

        `items` are the texts of the rows, or their images: arrays of pixels, or PIL images.
        """
        from kspr.report import Shown, write_report
        from kspr.report.contents import as_items

        shown = Shown(title, items=None if items is None else as_items(items))
        return write_report(self, Path(path), shown)

    def to_frame(self, backend: Literal["pandas", "polars", "pyarrow"] = "pandas") -> Any:
        """Return a data frame of the library `backend` with one row per sample.

        Its columns are ``label``, ``clean``, ``q_value``, ``doubt``, ``selection_time``,
        ``knockoff_label``, ``suggested_label``, ``suggestion_probability``, ``duplicate_set``,
        ``piece``, ``half`` and ``status``, without those that this selection does not have.
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

        The directory holds ``samples.parquet``, ``cut_groups.parquet`` and ``manifest.json``, and
        appears whole or not at all. `overwrite` replaces one that was saved there before.
        """
        # Upwards, and here only: files are the business of `runs`, and need pyarrow.
        from kspr.runs.storage import save_selection

        return save_selection(self, Path(path), overwrite=overwrite)

    @classmethod
    def load(cls, path: str | Path, *, answers: bool = True) -> "Selection":
        """Return a selection that `save` has written.

        With `answers`, those that `kspr verify` has put beside it are applied.
        """
        from kspr.runs.storage import load_selection

        return load_selection(Path(path), answers=answers)

    def __repr__(self) -> str:
        return self.summary().headline()

    def _repr_html_(self) -> str:
        return self.summary().to_html()

    def _columns(self) -> dict[str, np.ndarray]:
        """Return the columns by name; those that this selection does not have are left out."""
        columns = {
            "label": self.label,
            "clean": self.clean_mask,
            "q_value": self.q_value,
            "doubt": self.doubt,
            "selection_time": self.selection_time,
            "knockoff_label": self.knockoff_label,
            "suggested_label": self.suggested_label,
            "suggestion_probability": self.suggestion_probability,
            "duplicate_set": self.duplicate_set,
            "piece": self.cut_groups.piece[self.cut_group],
            "half": self.cut_groups.half[self.cut_group],
            "status": self.cut_groups.status[self.cut_group],
        }
        return {name: column for name, column in columns.items() if column is not None}


def _noise(selection: Selection, checked: Checked) -> NoiseEstimate | None:
    """Return the noise with the rate that checked rows show, if they were drawn at random."""
    noise = selection.noise
    rate = None if noise is None else noise_rate(selection, checked)
    if noise is None or rate is None:
        return noise
    return replace(noise, rate=rate.value, rate_interval=(rate.low, rate.high), checked=True)
