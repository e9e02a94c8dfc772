"""Several labels a row: one selection per label, and one result for all pairs of row and label."""

import hashlib
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.preprocessing import MultiLabelBinarizer

from kspr.errors import InputError
from kspr.selectors.cut_groups import CutGroups
from kspr.selectors.knockoffs_spr import KnockoffsSPR
from kspr.selectors.provenance import NoiseEstimate
from kspr.selectors.selection import Selection


@dataclass(eq=False, repr=False)  # scikit-learn is not typed.
class MultiLabelSelector(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Keep the pairs of row and label that can be trusted, where rows have any number of labels.

    Whether a row has a label is a question with two answers, which a selector judges for each label
    by itself. The result is one `Selection` whose rows are pairs: that of row ``i`` and label ``k``
    has the number ``i * len(labels_) + k``, and the classes ``"even"`` and ``"not even"`` say what
    the pair claims. `q` holds for every label, and so over all pairs. Checks, curves and reports
    are about pairs, too; ``clean_mask.reshape(-1, len(labels_))`` is a table of rows and labels.

    Parameters
    ----------
    selector
        What judges a label; None for `KnockoffsSPR`.
    separator
        What stands between the labels of a row where they are one text.

    Attributes
    ----------
    selection_ : Selection
        Which pairs are kept, and the suspects in order.
    labels_ : numpy.ndarray
        The labels, in the order of the pairs of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> X, digit = load_digits(return_X_y=True)
    >>> kinds = {"even": (0, 2, 4, 6, 8), "round": (0, 3, 6, 8, 9)}
    >>> tags = [[tag for tag, digits in kinds.items() if d in digits] for d in digit]
    >>> tags[0]
    ['even', 'round']
    >>> tags[::10] = [[]] * 180
    >>> model = MultiLabelSelector(KnockoffsSPR(q=0.01)).fit(X, tags)
    >>> model.labels_.tolist(), len(model.selection_)
    (['even', 'round'], 3594)
    >>> model.selection_.label[:2].tolist(), model.selection_.clean_mask[:2].tolist()
    (['not even', 'not round'], [False, False])
    """

    selector: Any = None
    _: KW_ONLY
    separator: str = "|"

    def fit(self, X: Any, Y: Any, **fit_params: Any) -> Self:
        """Judge every pair of row and label; the result is in ``selection_``.

        Parameters
        ----------
        X
            Features of the rows, as for the selector.
        Y
            A table of 0 and 1 with a column per label, which a data frame names; or for each row a
            list of its labels, or one text with all of them, such as ``"cat|indoors"``.
        **fit_params
            Further arguments of the selector's `fit`, such as `groups`, an entry per row.
        """
        table, labels = _read_table(Y, self.separator)
        chosen = KnockoffsSPR() if self.selector is None else self.selector
        judged = []
        for label, has in zip(labels.tolist(), table.T, strict=True):
            if has.all() or not has.any():
                raise InputError(
                    f"{'Every' if has.all() else 'No'} row has the label {label!r}, so that wrong "
                    "ones cannot be told from right ones. Leave this label out."
                )
            claim = np.where(has, str(label), f"not {label}")
            judged.append(clone(chosen).fit(X, claim, **fit_params).selection_)
        self.labels_, self.selection_ = labels, _of_pairs(judged)
        return self


def _read_table(Y: Any, separator: str) -> tuple[np.ndarray, np.ndarray]:
    """Return a table of rows and labels, and the labels."""
    names = getattr(Y, "columns", None)
    values = Y.to_numpy() if hasattr(Y, "to_numpy") else Y
    if getattr(values, "ndim", 1) == 2:
        table = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        if not np.isin(table, (0, 1)).all():
            raise InputError(
                "Y with two dimensions must be a table of 0 and 1, a column per label. For lists "
                "of labels pass a list of lists."
            )
        labels = np.arange(table.shape[1]) if names is None else np.asarray(names)
        return table.astype(bool), labels
    rows = [row.split(separator) if isinstance(row, str) else row for row in values]
    alone = next((k for k, row in enumerate(rows) if not hasattr(row, "__iter__")), None)
    if alone is not None:
        raise InputError(
            f"Y must hold a list of labels, or a text, for each row, got {rows[alone]!r} in row "
            f"{alone}. A row without labels has an empty list."
        )
    texts = [[str(label).strip() for label in row] for row in rows]
    # An empty text has no label.
    binarizer = MultiLabelBinarizer()
    table = binarizer.fit_transform([[label for label in row if label] for row in texts])
    return table.astype(bool), binarizer.classes_.astype(str)


def _of_pairs(judged: Sequence[Selection]) -> Selection:
    """Return the selections of all labels as one, whose rows are pairs of row and label."""
    classes = np.unique(np.concatenate([selection.classes for selection in judged]))
    if len(classes) < 2 * len(judged):
        raise InputError("The labels must stay different when 'not ' is put before some of them.")
    # The class -1 of a cut group stays.
    place = [np.append(np.searchsorted(classes, one.classes), -1) for one in judged]

    def joined(name: str) -> np.ndarray | None:
        columns = [getattr(selection, name) for selection in judged]
        if any(column is None for column in columns):
            return None
        if name.endswith("_code"):
            columns = [codes[column] for codes, column in zip(place, columns, strict=True)]
        return np.stack(columns, axis=1).ravel()

    groups = [one.cut_groups for one in judged]
    together = {
        field.name: np.concatenate([getattr(group, field.name) for group in groups])
        for field in fields(CutGroups)
    }
    together["class_code"] = np.concatenate(
        [codes[group.class_code] for codes, group in zip(place, groups, strict=True)]
    )
    first = np.cumsum([0, *map(len, groups[:-1])])
    digest = hashlib.sha256("".join(one.manifest.fingerprint for one in judged).encode())
    columns: dict[str, Any] = {
        field.name: joined(field.name)
        for field in fields(Selection)
        if isinstance(getattr(judged[0], field.name), np.ndarray) and field.name != "classes"
    }
    copies = judged[0].duplicate_set
    if copies is not None:
        # Rows are copies, whatever the label: pairs are, if they are about the same label.
        pairs = copies[:, None] * len(judged) + np.arange(len(judged))
        columns["duplicate_set"] = np.where(copies[:, None] < 0, -1, pairs).ravel()
    columns["cut_group"] = np.stack(
        [one.cut_group + start for one, start in zip(judged, first, strict=True)], axis=1
    ).ravel()
    return replace(
        judged[0],
        **columns,
        cut_groups=CutGroups(**together),
        classes=classes,
        noise=_mean_noise([one.noise for one in judged], classes),
        manifest=replace(
            judged[0].manifest,
            method=MultiLabelSelector.__name__,
            n_samples=len(judged) * len(judged[0]),
            fingerprint=digest.hexdigest(),
        ),
    )


def _mean_noise(
    noises: Sequence[NoiseEstimate | None], classes: np.ndarray
) -> NoiseEstimate | None:
    """Return the noise over all pairs; of labels that do not mix there is no matrix."""
    known = [noise for noise in noises if noise is not None]
    if not known:
        return None
    low, high = np.mean([noise.rate_interval for noise in known], axis=0).tolist()
    nothing = np.empty((0, 0))
    return NoiseEstimate(
        rate=float(np.mean([noise.rate for noise in known])),
        rate_interval=(low, high),
        transition=nothing,
        low=nothing,
        high=nothing,
        anchors=np.zeros(len(classes), dtype=np.int64),
        classes=classes,
    )
