"""From partitions on a cluster to a `Selection`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kspr._files import write_parquet
from kspr.core.coded import as_read, changed, coded, doubts
from kspr.core.grading import GradeLevels
from kspr.errors import InputError
from kspr.runs.storage import write_about, write_selection
from kspr.selectors._cluster_passes import Choices, Distributed, Outcome, Partitions
from kspr.selectors._partitions import Rows
from kspr.selectors.controls.control import cut_group_table, only_group
from kspr.selectors.controls.noise_estimate import NoiseEstimate
from kspr.selectors.controls.transition import describe_noise
from kspr.selectors.curve import at_best_f1, best_level
from kspr.selectors.cut_groups import CutStats, uncut
from kspr.selectors.engines.cluster import Cluster, made
from kspr.selectors.selection import Selection

if TYPE_CHECKING:
    from kspr.selectors.knockoffs_spr import KnockoffsSPR

__all__ = [
    "Partitions",
    "Rows",
    "Written",
    "part_name",
    "select_on_cluster",
    "write_on_cluster",
]


def select_on_cluster(
    selector: "KnockoffsSPR", cluster: Cluster, partitions: Partitions, *, groups: bool = False
) -> Selection:
    """Judge all partitions; the columns of the selection are brought to this process."""
    passes = passes_of(selector, cluster, partitions, groups=groups)
    if passes.is_small:
        selection: Selection = passes.at_one_worker(_fit_together, _local(selector))
        # As if it had been made here: where it was made has no part in the answer.
        parameters = {**selection.manifest.parameters, "engine": "dask"}
        return changed(selection, manifest=replace(selection.manifest, parameters=parameters))
    check_supported(selector)
    outcome = passes.run()
    columns = _joined(cluster.results(outcome.columns))
    selection = _selection(selector, outcome, columns)
    return at_best_f1(selection, selector.q) if selector.level == "f1" else selection.at(selector.q)


@dataclass(frozen=True)
class Written:
    """A selection that workers have written, in a few numbers."""

    n_rows: int
    n_kept: int
    share_of_copies: float
    """Share of the rows that have an exact copy, as estimated; 0 where that was not looked for."""


def write_on_cluster(
    selector: "KnockoffsSPR",
    cluster: Cluster,
    partitions: Partitions,
    folder: Path,
    *,
    groups: bool = False,
) -> Written:
    """Judge all partitions, and write the selection to `folder`, which all workers must reach.

    Workers write ``samples.parquet``, a folder with one file for each partition; nothing of the
    size of the data comes to this process.
    """
    passes = passes_of(selector, cluster, partitions, groups=groups)
    if passes.is_small:
        selection: Selection = passes.at_one_worker(_fit_together, _local(selector))
        write_selection(selection, folder)
        return Written(len(selection), int(selection.clean_mask.sum()), 0.0)
    check_supported(selector)
    return _write_parts(selector, cluster, partitions, passes.run(), folder)


def _write_parts(
    selector: "KnockoffsSPR",
    cluster: Cluster,
    partitions: Partitions,
    outcome: Outcome,
    folder: Path,
) -> Written:
    samples = folder / "samples.parquet"
    samples.mkdir(exist_ok=True)
    numbers = [number for _, number, _ in partitions.blocks()]
    paths = [samples / part_name(number) for number in numbers]
    pooled, noise = selector.cut == "pooled", _noise(outcome)
    q = _best_level(selector, outcome, noise) if selector.level == "f1" else selector.q
    shared = cluster.keep((outcome.classes, outcome.levels, pooled, q))
    stats: CutStats = cluster.result(
        cluster.merged(
            _merge_stats,
            cluster.each(_write_part, list(zip(outcome.columns, paths, strict=True)), shared),
        )
    )
    reached = stats.n_kept > 0
    none = np.empty(0, dtype=np.int64)
    cut_groups = stats.applied(
        uncut(cut_group_table(len(outcome.classes), pooled=pooled), none),
        asked=q,
        level=np.where(reached, q, np.nan),
        status=np.where(reached, "assumed", "empty"),
    )
    shape = (partitions.n_rows, outcome.n_features)
    manifest = selector._manifest_for(shape, selector._seed(), outcome.digest)
    manifest = replace(manifest, parameters={**manifest.parameters, "q": q})
    write_about(folder, cut_groups, outcome.classes, manifest, noise)
    return Written(partitions.n_rows, int(stats.n_kept.sum()), outcome.share_of_copies)


def _noise(outcome: Outcome) -> NoiseEstimate:
    return describe_noise(outcome.noise, outcome.sizes, outcome.classes)


def _best_level(selector: "KnockoffsSPR", outcome: Outcome, noise: NoiseEstimate) -> float:
    """Return the level with the greatest estimated F1, from how many rows have each level."""
    assert outcome.kept is not None  # noqa: S101 - the only control that f1 goes with counts them
    found, sizes = outcome.levels.found, outcome.sizes
    groups = 1 if selector.cut == "pooled" else len(sizes)
    # Labels without hope have the level 1, and no entry of their own.
    kept = outcome.kept.reshape(groups, -1).sum(axis=1)
    lost = (sizes.sum() if groups == 1 else sizes) - kept
    return best_level(
        np.append(found, np.ones(groups)),
        np.append(np.repeat(np.arange(groups), len(found) // groups), np.arange(groups)),
        np.append(outcome.kept, lost),
        float(sizes.sum()) * (1 - noise.rate),
        at_least=selector.q,
    )


def part_name(number: int) -> str:
    """Return the name of the file that belongs to a partition; names sort as the partitions do."""
    return f"part-{number:07d}.parquet"


def _write_part(
    columns: dict[str, np.ndarray],
    path: Path,
    about: tuple[np.ndarray, GradeLevels, bool, float],
) -> CutStats:
    """Write the rows of a partition, on a worker, and return what they come to."""
    classes, levels, pooled, q = about
    codes = columns["code"].astype(np.int32)
    cut_group = np.zeros_like(codes) if pooled else codes
    q_value, statistic = levels.of(columns["grade"], codes), as_read(_statistic(columns))
    keep = q_value <= q
    table = {
        "label": classes[codes],
        "clean": keep,
        "q_value": q_value,
        "statistic": statistic,
        "selection_time": columns["Z"],
        "knockoff_label": classes[columns["knockoff"]],
        "suggested_label": classes[columns["best"]],
        "suggestion_probability": columns.get("chance"),
        "cut_group": cut_group,
    }
    # As in any selection, what a control does not estimate is no column.
    table = {name: column for name, column in table.items() if column is not None}
    write_parquet(path, pa.table(table))
    groups = 1 if pooled else len(classes)
    return CutStats.of(cut_group, q_value, statistic, keep, groups)


def _statistic(columns: dict[str, np.ndarray]) -> Any:
    """Return what rows are ordered by, as a selection stores it."""
    return columns["statistic"] if "statistic" in columns else doubts(columns["right"])


def _merge_stats(first: CutStats, *others: CutStats) -> CutStats:
    for other in others:
        first = first.merge(other)
    return first


def passes_of(
    selector: "KnockoffsSPR", cluster: Cluster, partitions: Partitions, *, groups: bool
) -> Distributed:
    """Return the passes that `selector` asks for."""
    if partitions.n_rows < 2:
        raise InputError(f"X has {partitions.n_rows} rows; a selection needs at least two.")
    reduction, _ = selector._reduction()
    choices = Choices(
        seed=selector._seed(),
        n_splits=selector.n_splits,
        fit_rows=selector.fit_rows,
        keep_copies=selector.duplicates == "together" and not groups,
        groups=groups,
        reduction=reduction,
        procedure=selector._chosen_procedure(),
        control=selector.control,
        pooled=selector.cut == "pooled",
        remove_floor=selector.remove_floor,
        min_class_size=selector.min_class_size,
        progress=selector.progress,
    )
    return Distributed(cluster, partitions, choices)


_ONLY: dict[str, tuple[Any, ...]] = {
    "control": ("transition", "exchangeable"),
    "level": ("fixed", "f1"),
    "neighbours": (None,),
    "classes_per_group": (None,),
    "samples_per_class": (None,),
}
"""Values of parameters with which rows can be judged where they are."""


def check_supported(selector: "KnockoffsSPR") -> None:
    """Refuse choices that need all rows in one place."""
    for name, values in _ONLY.items():
        value = getattr(selector, name)
        if value not in values:
            shown = " or ".join(f"{name}={value!r}" for value in values)
            raise InputError(
                f"{name}={value!r} needs all rows on one machine, and these are more than are "
                f"fitted. On a cluster choose {shown}."
            )
    if hasattr(selector.reduction, "transform"):
        raise InputError(
            "A fitted transformer as reduction does not go with engine='dask'. Transform X first, "
            "with X.map_blocks, and pass reduction=None."
        )


def _local(selector: "KnockoffsSPR") -> "KnockoffsSPR":
    # A connection can neither be copied nor sent to a worker.
    here = {"engine": "serial", "client": None, "progress": False}
    return type(selector)(**{**selector.get_params(deep=False), **here})


def _fit_together(rows: Sequence[Rows], selector: "KnockoffsSPR") -> Selection:
    """Select from all rows at once, on a worker."""
    rows = [made(part) for part in rows]
    X, y = (np.concatenate([getattr(part, name) for part in rows]) for name in ("X", "y"))
    groups = None
    if rows[0].groups is not None:
        groups = np.concatenate([part.groups for part in rows])
    return selector.fit(X, y, groups=groups).selection_


def _joined(parts: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _selection(
    selector: "KnockoffsSPR", outcome: Outcome, columns: dict[str, np.ndarray]
) -> Selection:
    """Return the selection before it is cut."""
    classes, codes = outcome.classes, columns["code"].astype(np.int32)
    pooled = selector.cut == "pooled"
    cut_group = only_group(len(codes)) if pooled else codes
    shape = (len(codes), outcome.n_features)
    return Selection(
        label=coded(codes, classes),
        clean_mask=np.zeros(len(codes), dtype=bool),
        q_value=coded(outcome.levels.places(columns["grade"], codes), outcome.levels.table),
        statistic=_statistic(columns),
        selection_time=columns["Z"],
        knockoff_label=coded(columns["knockoff"], classes),
        suggested_label=coded(columns["best"], classes),
        suggestion_probability=columns.get("chance"),
        cut_group=cut_group,
        cut_groups=uncut(cut_group_table(len(classes), pooled=pooled), cut_group),
        classes=classes,
        manifest=selector._manifest_for(shape, selector._seed(), outcome.digest),
        noise=_noise(outcome),
    )
