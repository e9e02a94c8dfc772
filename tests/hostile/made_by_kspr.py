"""What kspr wrote itself and reads again, and what users write for it: runs, settings, answers."""

import contextlib
import io
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from kspr import KnockoffsSPR
from kspr._files import read_json, write_sealed
from kspr.cli import main
from kspr.errors import InputError
from kspr.features.embedding import embed
from kspr.features.loading import stored_features
from kspr.runs.draws import draw_checks
from kspr.runs.export import export_run
from kspr.runs.review_log import ReviewLog
from kspr.runs.run import Run, load_run
from kspr.runs.select import select_source
from kspr.runs.verify import verification_of, verify_run
from kspr.selectors import Selection
from kspr.sources.opening import open_source
from kspr.sources.options import AS_FOUND, AS_SHIPPED, EmbedSettings
from tests.hostile.targets import TEXTS, Target, chosen, digest

N = 36
CLASSES = np.array(["cat", "dog", "otter"])


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Return three classes, far apart, with a few wrong labels."""
    code = np.arange(N) % 3
    noise = np.random.default_rng(0).standard_normal((N, 3))
    return (6 * np.eye(3)[code] + noise).astype(np.float32), np.where(
        np.arange(N) % 9 == 0, CLASSES[(code + 1) % 3], CLASSES[code]
    )


def _data(folder: Path) -> Path:
    X, y = rows()
    np.savez(folder / "data.npz", X=X, y=y)
    return folder / "data.npz"


def _select(source: Path, out: Path, **more: Any) -> Run:
    selector = KnockoffsSPR(q=0.2, control="transition", cut="pooled")
    how: dict[str, Any] = {"options": AS_FOUND, "settings": AS_SHIPPED, "command": ("kspr",)}
    return select_source(source, out, selector, overwrite=False, **how, **more)


def _run(folder: Path) -> None:
    _select(_data(folder), folder / "run")
    draw_checks(folder / "run", folder / "checks.csv", n=12, drawn="all")
    _fill(folder / "checks.csv")


def _fill(path: Path) -> None:
    """Answer the first rows of a draw with the label that they were given."""
    head, *lines = path.read_text("utf-8").splitlines()
    column = head.split(",").index("true_label")
    for k, line in enumerate(lines[:8]):
        cells = line.split(",")
        cells[column] = ("-", "?")[k] if k < 2 else cells[column - 2]
        lines[k] = ",".join(cells)
    path.write_text("\n".join([head, *lines]) + "\n", "utf-8")


def _tasks(folder: Path) -> None:
    """Leave the rows of a draw as Label Studio exports them, the first of them answered."""
    _run(folder)
    drawn = read_json(folder / "run" / "checks.json")["positions"]
    label = rows()[1]
    tasks = [
        {
            "data": {
                **{"row_id": str(k), "kspr_given_label": str(label[k]), "drawn_from": "all"},
            },
            "annotations": [chosen(str(label[k]))] if number < 8 else [],
        }
        for number, k in enumerate(drawn)
    ]
    tasks[1]["annotations"] = [chosen("-"), chosen("?")]
    (folder / "tasks.json").write_text(json.dumps(tasks, indent=1))


def _use_tasks(folder: Path) -> str:
    return digest(verify_run(folder / "run", folder / "tasks.json"))


def _answered(folder: Path) -> None:
    _run(folder)
    verify_run(folder / "run", folder / "checks.csv")
    fitted = Selection.load(folder / "run", answers=False)
    log = ReviewLog(folder / "run", fitted.manifest.fingerprint)
    log.append("anna", "check", {k: str(fitted.label[k]) for k in range(6)})
    log.append("ben", "fix", dict.fromkeys(range(3, 9), "-"))
    log.undo("ben", "fix")
    log.close()


def _use_run(folder: Path) -> str:
    # From where the copy is now: the path of the source is in run.json.
    run = load_run(folder / "run", folder / "data.npz")
    selection = run.selection
    assert len(selection) == len(run.row) == len(run.row_id) == len(selection.q_value)
    assert len(selection.suggested_label) == len(selection.clean_mask)
    run.origin.read_options(), run.origin.command_line(), run.notes()
    selection.curve(), selection.at(0.3), selection.suspicion, selection.assumption
    found = verification_of(run)
    made = export_run(folder / "run", folder / "out.csv", None, "drop", folder / "data.npz")
    assert made.rows <= len(selection)
    return digest(str(selection.summary()), selection.q_value.tolist(), found, made.rows)


def _resealed(folder: Path) -> None:
    """Write checksums that hold, as another program could, where the documents can be read."""
    for name in ("manifest.json", "run.json"):
        path = folder / "run" / name
        with contextlib.suppress(OSError, RecursionError, UnicodeEncodeError):
            about = read_json(path)
            if isinstance(about, dict) and isinstance(about.get("checksums"), dict):
                files = [file for file in about["checksums"] if (path.parent / file).is_file()]
                write_sealed(path, {k: v for k, v in about.items() if "checksum" not in k}, *files)


def _use_answers(folder: Path) -> str:
    return digest(verify_run(folder / "run", folder / "checks.csv"))


def _use_checked(folder: Path) -> str:
    """Select again with the answers."""
    made = _select(folder / "data.npz", folder / "again", checked=folder / "checks.csv")
    return digest(made.selection.clean_mask.tolist())


def lengths(batch: list[str]) -> np.ndarray:
    """Embed texts, for the tests of folders of features."""
    return np.array([[len(text), ord(text[-1])] for text in batch], dtype=np.float32)


def _embed(folder: Path) -> Any:
    items = open_source(TEXTS).items
    settings = EmbedSettings(f"{__name__}:lengths")
    return embed(items, settings, folder / "features", shard_rows=5, progress=False)


def _half_embedded(folder: Path) -> None:
    """Leave what a killed process leaves: a manifest and shards."""
    from kspr.features import embedding

    with contextlib.suppress(KeyboardInterrupt):
        conclude = embedding._conclude
        try:
            embedding._conclude = _interrupt  # type: ignore[assignment]
            _embed(folder)
        finally:
            embedding._conclude = conclude
    assert list((folder / "features" / "shards").iterdir())


def _interrupt(*_: Any) -> Any:
    raise KeyboardInterrupt


def _use_embedded(folder: Path) -> str:
    whole = len(TEXTS)
    with contextlib.suppress(InputError):
        found = stored_features(folder / "features", _fingerprint(), np.arange(whole))
        assert found is None or np.asarray(found).shape[0] == whole
    made = _embed(folder)
    assert made.features.shape == (whole, 2)
    return digest(np.asarray(made.features).tolist(), made.kept.tolist())


@cache
def _fingerprint() -> str:
    from kspr.features._store import content_fingerprint

    return content_fingerprint(open_source(TEXTS).items.content())


def _settings() -> Any:
    from kspr.train import TrainSettings

    return TrainSettings.from_preset(
        "cpu",
        epochs=2,
        warmup_epochs=1,
        select_every=1,
        batch_size=8,
        selection={"q": 0.2, "cut": "pooled"},
    )


def _fit(folder: Path, *, resume: bool = False) -> Any:
    from kspr.train import fit

    X, y = rows()
    return fit(X, y, settings=_settings(), out=folder / "trained", resume=resume)


def _use_trained(folder: Path) -> str:
    from kspr.train import load_trained
    from kspr.train.run_folder import read_about, read_metrics

    X, _ = rows()
    trained = load_trained(folder / "trained")
    probability = trained.predict_proba(X)
    assert probability.shape == (N, len(trained.classes))
    assert len(trained.predict(X)) == N
    assert all(isinstance(line, dict) for line in read_metrics(folder / "trained"))
    read_about(folder / "trained")
    return digest(trained.predict(X).tolist())


def _use_curves(folder: Path) -> str:
    from kspr.report import write_curves
    from kspr.train.run_folder import read_metrics

    history = read_metrics(folder / "trained")
    return digest(write_curves(history, folder / "c.svg").read_bytes())


def _use_resumed(folder: Path) -> str:
    trained = _fit(folder, resume=True)
    return digest(trained.predict(rows()[0]).tolist())


def _use_weights(folder: Path) -> str:
    from kspr.models.build import build_network

    network = build_network("mlp", 3, in_shape=(3,), weights=folder / "w.pt")
    return digest([p.tolist() for p in network.parameters()])


CONFIG = """
[select]
q = 0.2
label = "y"
features = "X"
seed = 3
preset = "default"
cut = "pooled"

[embed]
batch-size = 4
"""
SETTINGS = """
epochs = 3
batch_size = 8
learning_rate = 0.1
guard = true
mean = [0.5, 0.5]
std = [0.2, 0.2]
network = "mlp"

[selection]
q = 0.2
cut = "pooled"
"""


def command(*arguments: Any) -> str:
    """Run a command; return its output, or raise the sentence that it ends with."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as stop:
            code = stop.code
        else:
            return out.getvalue()
    sentence = err.getvalue()
    assert code == 2, sentence
    assert sentence.startswith("kspr: ")
    raise InputError(sentence.removesuffix("\n"))


def _use_config(folder: Path) -> str:
    command("--config", folder / "c.toml", "select", folder / "data.npz", "--out", folder / "run")
    return digest(Selection.load(folder / "run").clean_mask.tolist())


def _use_settings(folder: Path) -> str:
    from kspr._files import read_toml
    from kspr.train import TrainSettings
    from kspr.train.settings import make_selector

    # As `kspr train --settings` does before it reads its source.
    settings = TrainSettings.from_preset("cpu").changed(**read_toml(folder / "s.toml"))
    make_selector(settings)
    return json.dumps(settings.as_dict())


def _config(folder: Path) -> None:
    _data(folder)
    (folder / "c.toml").write_text(CONFIG)


RUNS = (
    Target("run", _answered, _use_run, "run/*", weight=3),
    Target("run resealed", _answered, _use_run, "run/*", _resealed, weight=6),
    Target("run after checks", _answered, _use_run, "run/checks.json", weight=3),
    Target("run after a review", _answered, _use_run, "run/review.sqlite", weight=3),
    Target("answers", _run, _use_answers, "checks.csv", weight=4),
    Target("answers in tasks", _tasks, _use_tasks, "tasks.json", weight=4),
    Target("answers to select", _run, _use_checked, "checks.csv"),
    Target("features", lambda folder: _embed(folder), _use_embedded, "features/*"),
    Target("features begun", _half_embedded, _use_embedded, "features/**/*"),
    Target("config", _config, _use_config, "c.toml"),
    Target("settings", lambda f: (f / "s.toml").write_text(SETTINGS), _use_settings, weight=4),
)


def _weights(folder: Path) -> None:
    import torch

    from kspr.models.build import build_network

    torch.save(build_network("mlp", 3, in_shape=(3,)).state_dict(), folder / "w.pt")


TRAINED = (
    Target("trained", lambda f: _fit(f), _use_trained, "trained/*.*", weight=6),
    Target("curves", lambda f: _fit(f), _use_curves, "trained/metrics.jsonl", weight=1),
    Target("resumed", lambda f: _fit(f), _use_resumed, "trained/checkpoints/*.pt", weight=3),
    Target("weights", _weights, _use_weights),
)
