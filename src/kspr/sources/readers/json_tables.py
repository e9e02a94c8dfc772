"""JSON lines and arrays of objects, and documents of Label Studio and FiftyOne, as tables."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json as pajson

from kspr.errors import InputError
from kspr.sources.readers.file_checks import (
    BLOCK_BYTES,
    PlainText,
    listed,
    plain_text,
    readable,
    shown,
)
from kspr.sources.readers.table import ArrowTable, Table


def is_fiftyone(document: Any) -> bool:
    """Return whether a JSON document is FiftyOne's: labels by the names of images."""
    return isinstance(document, dict) and isinstance(document.get("labels"), dict)


def label_columns(document: dict[str, Any], path: Path) -> dict[str, list[Any]]:
    """Return the names of the images, which lack their suffixes, and their labels as columns.

    `path` names a document for which `is_fiftyone` holds in errors. An image without a label has
    None.
    """
    classes = document.get("classes")
    if classes is not None and not (
        isinstance(classes, list) and all(isinstance(name, (str, int)) for name in classes)
    ):
        raise InputError(f"{path}: 'classes' must be a list of names.")
    labels = document["labels"]
    if not labels:
        raise InputError(f"{path} has no rows.")
    return {
        "uuid": list(labels),
        "label": [_label(value, classes, name, path) for name, value in labels.items()],
    }


def _label(value: Any, classes: list[Any] | None, name: str, path: Path) -> str | None:
    if isinstance(value, dict):
        # Written so where confidence or attributes go with the label.
        value = value.get("label")
    where = f"{path}: the label of {shown(name, 60)}"
    if value is None or isinstance(value, str):
        return value
    if type(value) is not int:
        raise InputError(f"{where} must be a text or a class number; an image has one label.")
    if classes is None:
        return str(value)
    if not 0 <= value < len(classes):
        raise InputError(f"{where} is {value}, but there are {len(classes)} classes.")
    return str(classes[value])


CONTROL = "label"
"""Name of the question that asks for the label, in the labelling configs that kspr writes."""
_NO_LABEL = ("-", "?")
"""Choices that are no classes, in these configs: none of the classes fits, and cannot tell."""
_TASKS = "a JSON file of Label Studio"


@dataclass(frozen=True)
class Task:
    """One task, and what was answered."""

    where: str
    """Names the task in errors: ``task 3``, counted from 1 in the order of the file."""
    data: dict[str, Any]
    """What was imported with it: text or address of the image, and any other fields."""
    answered: bool
    """Whether anybody has annotated or skipped it."""
    choice: str | None
    """The label; None without an answer, if somebody skipped it, or if answers differ."""


def open_tasks(path: Path) -> list[Task]:
    """Return the tasks in `path`, which Label Studio exported as JSON."""
    text = plain_text(path, _TASKS)
    with readable(path, _TASKS):
        document = json.loads(text.whole())
    if not is_tasks(document):
        raise InputError(
            f"{path} holds no tasks of Label Studio, each with 'data' and 'annotations'. Export "
            "the project in the format JSON; JSON-MIN leaves out who answered what."
        )
    return tasks_in(document, path)


def is_tasks(document: Any) -> bool:
    """Return whether a JSON document holds tasks, annotated or with predictions only."""
    if not isinstance(document, list) or not document:
        return False
    tasks = all(isinstance(task, dict) and isinstance(task.get("data"), dict) for task in document)
    return tasks and any("annotations" in task or "predictions" in task for task in document)


def tasks_in(document: list[dict[str, Any]], path: Path) -> list[Task]:
    """Return the tasks in a document for which `is_tasks` holds; `path` names it in errors.

    Several annotations of a task must agree, as several reviewers must: where they differ, or one
    was skipped, nobody can tell. An annotation that is marked as ground truth settles that.
    """
    entries = []
    for number, task in enumerate(document, start=1):
        where = f"task {number}"
        annotations = _objects(task.get("annotations"), f"{path}, {where}: 'annotations'")
        entries.append(
            (where, task["data"], [_annotation(a, f"{path}, {where}") for a in annotations])
        )
    control = _control([a for *_, annotations in entries for a in annotations], path)
    return [
        Task(where, data, bool(annotations), _agreed(annotations, control))
        for where, data, annotations in entries
    ]


def task_columns(tasks: list[Task]) -> dict[str, list[Any]]:
    """Return tasks as columns: the simple fields of their data, and the chosen `label`.

    None stands for no label: no answer, no agreement, or an answer that is no class.
    """
    used: dict[str, list[Any]] = {}
    for name in dict.fromkeys(name for task in tasks for name in task.data):
        cells = [task.data.get(name) for task in tasks]
        cells = [cell if isinstance(cell, (str, int, float)) else None for cell in cells]
        if any(cell is not None for cell in cells):
            used[name] = cells
    chosen = [None if task.choice in _NO_LABEL else task.choice for task in tasks]
    return {**used, CONTROL: chosen}


@dataclass(frozen=True)
class _Annotation:
    """One person's choices for a task, by the name of the question."""

    where: str
    settles: bool
    skipped: bool
    choices: dict[str, set[str]]

    def chosen(self, control: str) -> str | None:
        """Return the choice; None if the task was skipped, or sent without a choice."""
        choices = set() if self.skipped else self.choices.get(control, set())
        if len(choices) > 1:
            raise InputError(
                f"{self.where} has the choices {listed(sorted(choices), 5)} in one annotation; a "
                'row has one label. Set choice="single" in the labelling config.'
            )
        return next(iter(choices), None)


def _annotation(content: dict[str, Any], where: str) -> _Annotation:
    chosen: dict[str, set[str]] = {}
    for result in _objects(content.get("result"), f"{where}: 'result'"):
        if result.get("type") != "choices":
            continue
        value = result.get("value")
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
            raise InputError(f"{where}: a result of the type 'choices' has no list of choices.")
        chosen.setdefault(str(result.get("from_name")), set()).update(choices)
    settles, skipped = (content.get(k) is True for k in ("ground_truth", "was_cancelled"))
    return _Annotation(where, settles, skipped, chosen)


def _objects(value: Any, what: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{what} must be a list of objects. Export the project again as JSON.")
    return value


def _control(annotations: list[_Annotation], path: Path) -> str:
    """Return the question that asks for the label."""
    names = {name for annotation in annotations for name in annotation.choices}
    if CONTROL in names or len(names) < 2:
        return CONTROL if CONTROL in names else next(iter(names), CONTROL)
    raise InputError(
        f"{path} has answers to several questions: {listed(sorted(names))}. Name the one that asks "
        f"for the label {CONTROL!r} in the labelling config."
    )


def _agreed(annotations: list[_Annotation], control: str) -> str | None:
    settled = [a for a in annotations if a.settles]
    answers = {annotation.chosen(control) for annotation in settled or annotations}
    return answers.pop() if len(answers) == 1 else None


_KIND = "a file of JSON lines"


def open_json_table(path: Path, encoding: str | None = None) -> Table:
    """Return the table at `path`: one JSON object per line, or one array of objects.

    The tasks of Label Studio and the labels of FiftyOne are told by their content.
    """
    text = plain_text(path, _KIND, encoding)
    with text.lines("replace") as file:
        first = file.read(4096).lstrip()[:1]
    if first not in ("{", "["):
        raise InputError(f"{path} is not {_KIND}: it begins with {shown(first)}.")
    labels = _labels(text) if first == "{" and path.suffix.lower() == ".json" else None
    table = labels or (_array(text) if first == "[" else _lines(text))
    return ArrowTable(table.replace_schema_metadata(None), str(path))


def _labels(text: PlainText) -> pa.Table | None:
    """Return the labels of FiftyOne; None if the file is of another kind."""
    try:
        # JSON lines are given up at the end of the first one.
        document = json.loads(text.whole())
    except InputError:
        raise
    except (ValueError, RecursionError):
        return None
    if not is_fiftyone(document):
        return None
    with readable(text.path, "a JSON file of FiftyOne"):
        return pa.table(label_columns(document, text.path))


def _lines(text: PlainText) -> pa.Table:
    # A row must fit into a block.
    options = pajson.ReadOptions(block_size=BLOCK_BYTES)

    def read(schema: pa.Schema | None) -> pa.Table:
        parsing = pajson.ParseOptions(explicit_schema=schema, newlines_in_values=False)
        with text.open() as file:
            return pajson.read_json(file, options, parsing)

    try:
        table = read(None)
        # Arrow takes texts that look like dates for dates; a label must stay as it is written.
        dates = [field.name for field in table.schema if pa.types.is_temporal(field.type)]
        if dates:
            # Those that are named would come first.
            texts = pa.schema([(name, pa.string()) for name in dates])
            table = read(texts).select(table.schema.names)
    except pa.ArrowInvalid as error:
        raise _wrong_line(text, error) from error
    return table


def _array(text: PlainText) -> pa.Table:
    with readable(text.path, "a JSON file"):
        rows = json.loads(text.whole())
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise InputError(f"{text.path} must hold an array of JSON objects, one per row.")
        if not rows:
            raise InputError(f"{text.path} has no rows.")
        if is_tasks(rows):
            return pa.table(task_columns(tasks_in(rows, text.path)))
        # from_pylist takes the columns of the first row; a later row may have more.
        names = dict.fromkeys(name for row in rows for name in row)
        return pa.table({name: [row.get(name) for row in rows] for name in names})


def _wrong_line(text: PlainText, error: Exception) -> InputError:
    """Return the sentence for lines that Arrow refused, with the first line that is no object."""
    with text.lines("replace") as file:
        for number, line in enumerate(file, start=1):
            try:
                value = json.loads(line) if line.strip() else {}
            # Of objects within objects within objects, Python gives up on the depth.
            except (ValueError, RecursionError):
                value = None
            if not isinstance(value, dict):
                return InputError(
                    f"{text.path} is not {_KIND}: line {number} is {shown(line.strip())}. Each "
                    "line must hold one whole object."
                )
    reason = " ".join(str(error).split()).removeprefix("JSON parse error: ")[:120].rstrip(".")
    return InputError(
        f"{text.path} cannot be read as a table ({reason}). A name must have values of one type."
    )
