"""Trials: which a recipe has, how each is described, and those that train no network."""

import base64
import hashlib
import io
import json
import time as clock
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kspr._packages import is_installed
from kspr.core.labels import encode_labels, truly_clean
from kspr.core.metrics import selection_quality
from kspr.core.paper.selection_times import gamma_path, irrepresentable_values
from kspr.errors import InputError
from kspr.experiments.reproduce.data import Sample, absent, corrupted, identity, open_sample
from kspr.experiments.reproduce.recipes import (
    SCALES,
    Recipe,
    Scale,
    Variant,
    load_recipe,
    recipe_names,
)
from kspr.selectors import SPR, KnockoffsSPR, Selection, from_preset
from kspr.selectors.validation import check_choice

if TYPE_CHECKING:
    from PIL.Image import Image


TIMED = ("time",)
"""Kinds that measure seconds: they run one at a time, with all threads of the machine."""


@dataclass(frozen=True, eq=False)
class TrialSpec:
    """One variant on one data set with one noise and one seed, before it is run."""

    kind: str
    """A name in `running.KINDS`."""
    data: str
    """The paper's name of the data set."""
    source: Mapping[str, Any]
    """The data that is used for it here, as `open_sample` reads it."""
    settings: Mapping[str, Any]
    noise: str
    variant_name: str
    variant: Variant
    seed: int
    folder: Path | None = None
    """Where data is looked for; None for the usual places."""
    work: Path | None = None
    """Folder for the checkpoints of a long trial, from which it continues after a stop."""
    device: str | None = None
    """Where a network is trained; None for a GPU if there is one."""

    @property
    def title(self) -> str:
        """Row, data, noise and seed, for messages."""
        return f"{self.variant_name} on {self.data}, {self.noise}, seed {self.seed}"

    def sample(self) -> Sample:
        """Return the data with this trial's noise."""
        return corrupted(open_sample(self.source, self.folder), self.noise, self.seed)

    def description(self) -> dict[str, Any]:
        """Return all that the recipe sets for this trial, and its data files, ready for JSON.

        Trials with equal descriptions are one trial, of whichever table: names for the page, such
        as that of the variant, do not count.
        """
        unset = asdict(Variant())
        # What is learned from is in the source and the settings.
        variant = asdict(replace(self.variant, on_features=False))
        described = {
            "kind": self.kind,
            "source": dict(self.source),
            # The path does not count: the same files elsewhere give the same trial.
            "files": identity(self.source, self.folder),
            "noise": self.noise,
            # Only what is set: an entry that variants get later leaves stored trials valid.
            "variant": {name: value for name, value in variant.items() if value != unset[name]},
            "settings": dict(self.settings),
            "seed": self.seed,
        }
        # Through JSON once, so that a stored description is equal to a new one.
        stored: dict[str, Any] = json.loads(json.dumps(described))
        return stored


def name_of(description: Mapping[str, Any]) -> str:
    """Return the file name, without ending, under which the trial so described is stored."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:20]


def selector_of(spec: TrialSpec) -> SPR | KnockoffsSPR:
    """Return the selector of the variant, with the trial's seed."""
    chosen = {"random_state": spec.seed, "progress": False, **spec.variant.parameters}
    return from_preset(spec.variant.selector, **chosen)


def selected(spec: TrialSpec) -> tuple[Sample, Selection]:
    """Return the data of the trial, and what its variant selects."""
    sample = spec.sample()
    return sample, selector_of(spec).fit(sample.X, sample.label).selection_


def principal(X: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the rows in their leading principal components."""
    # Left vectors times singular values are the centred rows times the right vectors.
    left, scale, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    return np.asarray((left * scale)[:, :dimensions])


def select(spec: TrialSpec) -> Mapping[str, Any]:
    """Return FSR, recall and F1, the level that was reached, and the share that is kept."""
    sample, selection = selected(spec)
    kept = selection.clean_mask
    return {**quality_of(kept, sample), **levels(selection), "kept": float(kept.mean())}


def quality_of(clean_mask: np.ndarray, sample: Sample) -> dict[str, float]:
    """Return FSR, recall and F1 of the kept rows; nothing where true labels are not known."""
    if sample.truth is None:
        return {}
    return asdict(selection_quality(clean_mask, truly_clean(sample.label, sample.truth)))


def levels(selection: Selection) -> dict[str, float | None]:
    """Return mean and standard deviation of the levels over the cut groups that reach one.

    `fallback` is the share of cut groups that reach none, and keep their better half.
    """
    # Cut groups that fell back have no level, and would pull the mean to nan.
    reached = selection.cut_groups.levels_met
    if selection.q_value is None:
        return {"q": None, "q_spread": None, "fallback": None}
    return {
        "q": float(reached.mean()) if len(reached) else None,
        "q_spread": float(reached.std()) if len(reached) else None,
        "fallback": float((selection.cut_groups.status == "fallback").mean()),
    }


def time(spec: TrialSpec) -> Mapping[str, Any]:
    """Return the median seconds of a few selections, and the quality of the last one."""
    sample, selector = spec.sample(), selector_of(spec)
    seconds = []
    # The median of a few: the first fit also pays for imports and cold caches.
    for _ in range(spec.settings.get("repeats", 3)):
        start = clock.perf_counter()
        selection = selector.fit(sample.X, sample.label).selection_
        seconds.append(clock.perf_counter() - start)
    quality = quality_of(selection.clean_mask, sample)
    return {"seconds": float(np.median(seconds)), **quality, "rows": len(sample.label)}


def examples(spec: TrialSpec) -> Mapping[str, Any]:
    """Return falsely selected samples drawn at random: picture, given class and true class."""
    sample, selection = selected(spec)
    if sample.picture is None:
        raise InputError(
            f"{sample.about}: the folder has features but no images to show. Pass a folder that "
            "has both with --data."
        )
    wrong = ~truly_clean(selection.label, sample.truth)
    falsely = np.flatnonzero(selection.clean_mask & wrong)
    # A second number in the seed: the noise has drawn from the stream of the seed alone.
    shown = np.random.default_rng([spec.seed, 11]).permutation(falsely)[: spec.settings["shown"]]
    truth = sample.label if sample.truth is None else sample.truth
    return {
        "examples": [
            {
                "row": int(row),
                "given": sample.name(sample.label[row]),
                "true": sample.name(truth[row]),
                "png": _png(sample.picture(int(row))),
            }
            for row in np.sort(shown)
        ],
        "falsely_selected": len(falsely),
        "fsr": selection_quality(selection.clean_mask, ~wrong).fsr,
    }


def _png(image: "Image") -> str:
    stream = io.BytesIO()
    image.save(stream, format="PNG")
    return base64.b64encode(stream.getvalue()).decode()


def path(spec: TrialSpec) -> Mapping[str, Any]:
    """Return penalty levels, the norm of each row's mean shift at each, and the wrong labels."""
    sample = spec.sample()
    rows = _balanced(sample.label, spec.settings["per_class"], spec.seed)
    labels = encode_labels(sample.label[rows])
    classes, codes = labels.classes, labels.codes
    X = principal(np.asarray(sample.X[rows], dtype=np.float64), len(classes))
    # Residuals of one-hot rows seldom exceed sqrt(2): above 1.4 every shift is zero.
    lams = np.linspace(1.4, 0.02, spec.settings.get("steps", 40))
    gamma = gamma_path(X, np.eye(len(classes))[codes], lams, tol=1e-5)
    truth = sample.label if sample.truth is None else sample.truth
    return {
        "lams": lams,
        # (levels, rows, classes) to (rows, levels).
        "norms": np.linalg.norm(gamma, axis=2).T,
        "wrong": ~truly_clean(sample.label, truth)[rows],
    }


def _balanced(label: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """Return the numbers of `per_class` rows of each given label, drawn at random."""
    # A second number in the seed: the noise has drawn from the stream of the seed alone.
    rng = np.random.default_rng([seed, 7])
    picked = [rng.permutation(np.flatnonzero(label == k))[:per_class] for k in np.unique(label)]
    return np.sort(np.concatenate(picked))


def theory(spec: TrialSpec) -> Mapping[str, Any]:
    """Return the median irrepresentable value of every piece that SPR splits the data into."""
    sample, selection = selected(spec)
    wrong = ~truly_clean(selection.label, sample.truth)
    piece = selection.cut_groups.piece[selection.cut_group]
    medians = []
    for number in np.unique(piece):
        rows = np.flatnonzero(piece == number)
        X = principal(
            np.asarray(sample.X[rows], dtype=np.float64), len(np.unique(selection.label[rows]))
        )
        # C2 of the paper's Theorem 1; S are the wrong labels, and each right one has a value.
        medians.append(float(np.median(irrepresentable_values(X, wrong[rows]))))
    return {
        "medians": medians,
        "median": float(np.median(medians)),
        "fsr": selection_quality(selection.clean_mask, ~wrong).fsr,
    }


FUNCTIONS: dict[str, Callable[[TrialSpec], Mapping[str, Any]]] = {
    "examples": examples,
    "path": path,
    "select": select,
    "theory": theory,
    "time": time,
}
"""Function of each kind of trial, but for `train`, which needs torch."""


def plan(
    recipe: Recipe, scale: str, seeds: int | None = None, folder: Path | None = None
) -> list[TrialSpec]:
    """Return the trials of a recipe at a scale, ordered by seed.

    A run that is stopped early so has every row of the table once before any row twice.
    """
    chosen = recipe.scale(scale)
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}.")
    return [
        TrialSpec(
            chosen.kind,
            data,
            *_learned_from(recipe.variants[name], chosen, data),
            noise=noise,
            variant_name=name,
            variant=recipe.variants[name],
            seed=seed,
            folder=folder,
        )
        for seed in range(seeds or chosen.seeds)
        for data in chosen.data
        for noise in chosen.noises
        for name in chosen.variants
        # A variant that is read from another one needs no trial of its own.
        if recipe.variants[name].of is None
    ]


def _learned_from(
    variant: Variant, scale: Scale, data: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return source and settings of a variant's trials."""
    source = dict(scale.data[data])
    # Settings that a source brings are those of the training.
    settings = {**scale.settings, **source.pop("settings", {})}
    if variant.on_features and source["source"] == "images":
        return {"source": "features", "dataset": source["dataset"]}, {"preset": "cpu"}
    return source, settings


@dataclass(frozen=True)
class Part:
    """The trials of a recipe that one run is asked for; by default all of them."""

    methods: tuple[str, ...] | None = None
    """Rows of the table, by name."""
    noises: tuple[str, ...] | None = None
    shard: str | None = None
    """``"3/8"``: the third of eight parts, for the jobs of an array."""

    def of(self, specs: Sequence[TrialSpec], recipe: Recipe) -> list[TrialSpec]:
        """Return the trials of this part; every shard draws from all methods, noises and seeds."""
        for name in self.methods or ():
            check_choice("methods", name, recipe.variants)
        for name in self.noises or ():
            check_choice("noises", name, recipe.noises)
        # A row that is read from another one asks for the trials of that one.
        rows = {recipe.variants[name].of or name for name in self.methods or recipe.variants}
        noises = self.noises or recipe.noises
        chosen = [spec for spec in specs if spec.variant_name in rows and spec.noise in noises]
        if self.shard is None:
            return chosen
        number, _, count = self.shard.partition("/")
        if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count)):
            raise InputError(
                f"shard must be K/N with K from 1 to N, got {self.shard!r}. Write 3/8 for the "
                "third of eight."
            )
        # Every n-th trial might be the same method again and again.
        order = np.random.default_rng(0).permutation(len(chosen))
        return [chosen[i] for i in sorted(order[int(number) - 1 :: int(count)])]


def forecast(missing: Sequence[TrialSpec], known: Sequence[tuple[TrialSpec, float]]) -> float:
    """Return the seconds of the missing trials, each by known ones of its method and data.

    A method that has no known trial on its data is counted as the mean of all.
    """
    like: dict[tuple[str, str], list[float]] = {}
    for spec, seconds in known:
        like.setdefault((spec.variant_name, spec.data), []).append(seconds)
    every = [float(np.mean([seconds for _, seconds in known]))]
    return sum(float(np.mean(like.get((spec.variant_name, spec.data), every))) for spec in missing)


def packages_of(recipe: Recipe, scale: Scale) -> dict[str, str]:
    """Return the optional packages that a recipe needs, with the extra that brings each."""
    needed = {}
    if scale.kind == "train" or any(s["source"] == "images" for s in scale.data.values()):
        needed["torch"] = "train"
    if recipe.shows != "table":
        needed["matplotlib"] = "report"
    return needed


@dataclass(frozen=True)
class ListedScale:
    """One recipe at one scale."""

    recipe: str
    place: str
    title: str
    scale: str
    trials: int
    """How many, with the recipe's own number of seeds."""
    minutes: int | None
    """About how long they take with two jobs on two cores; None where that is not known."""
    state: str
    """Whether its data and packages are on this machine, in a few words."""


def list_recipes(folder: Path | None = None) -> list[ListedScale]:
    """Return all recipes at all scales, and whether they can be run here."""
    return [
        ListedScale(
            recipe.name,
            recipe.place,
            recipe.title,
            scale,
            len(plan(recipe, scale, folder=folder)),
            recipe.scale(scale).minutes,
            _state(recipe, recipe.scale(scale), folder),
        )
        for recipe in map(load_recipe, recipe_names())
        for scale in SCALES
    ]


def absent_data(scale: Scale, folder: Path | None) -> dict[str, str]:
    """Return the data sets of a scale that are not here, with the reason."""
    reasons = {title: absent(source, folder) for title, source in scale.data.items()}
    return {title: reason for title, reason in reasons.items() if reason is not None}


def _state(recipe: Recipe, scale: Scale, folder: Path | None) -> str:
    packages = [module for module in packages_of(recipe, scale) if not is_installed(module)]
    lacking = absent_data(scale, folder)
    # Some data sets of several may be left out; a package may not.
    if packages or len(lacking) == len(scale.data):
        return f"needs {' and '.join([*packages, *lacking])}"
    return f"can be run here without {' and '.join(lacking)}" if lacking else "can be run here"
