"""Tasks of Label Studio: the data of each, and the one label that people chose for it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kspr.errors import InputError
from kspr.sources.readers.file_checks import listed, readable
from kspr.sources.readers.plain_text import plain_text

__all__ = ["CONTROL", "Task", "is_tasks", "open_tasks", "task_columns", "tasks_in"]

CONTROL = "label"
"""Name of the question that asks for the label, in the labelling configs that kspr writes."""
_NO_LABEL = ("-", "?")
"""Choices that are no classes, in these configs: none of the classes fits, and cannot tell."""
_KIND = "a JSON file of Label Studio"


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
    text = plain_text(path, _KIND)
    with readable(path, _KIND):
        document = json.loads(text.data.read_bytes())
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
        found = _objects(task.get("annotations"), f"{path}, {where}: 'annotations'")
        entries.append((where, task["data"], [_Annotation(a, f"{path}, {where}") for a in found]))
    control = _control([a for *_, annotations in entries for a in annotations], path)
    return [
        Task(where, data, bool(annotations), _agreed(annotations, control))
        for where, data, annotations in entries
    ]


def task_columns(tasks: list[Task]) -> dict[str, list[Any]]:
    """Return tasks as columns: the simple fields of their data, and the chosen `label`.

    None stands for no label: no answer, no agreement, or an answer that is no class.
    """
    names = dict.fromkeys(name for task in tasks for name in task.data)
    columns = {name: [_simple(task.data.get(name)) for task in tasks] for name in names}
    used = {name: cells for name, cells in columns.items() if any(c is not None for c in cells)}
    chosen = [None if task.choice in _NO_LABEL else task.choice for task in tasks]
    return {**used, CONTROL: chosen}


def _simple(value: Any) -> Any:
    return value if isinstance(value, (str, int, float)) else None


class _Annotation:
    """One person's choices for a task, by the name of the question."""

    def __init__(self, content: dict[str, Any], where: str) -> None:
        self.settles = content.get("ground_truth") is True
        self.skipped = content.get("was_cancelled") is True
        self.choices: dict[str, set[str]] = {}
        self._where = where
        for name, choices in _choices(content, where):
            self.choices.setdefault(name, set()).update(choices)

    def chosen(self, control: str | None) -> str | None:
        """Return the choice; None if the task was skipped, or sent without a choice."""
        found = set() if self.skipped else self.choices.get(control or "", set())
        if len(found) > 1:
            raise InputError(
                f"{self._where} has the choices {listed(sorted(found), 5)} in one annotation; a "
                'row has one label. Set choice="single" in the labelling config.'
            )
        return next(iter(found), None)


def _choices(annotation: dict[str, Any], where: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the questions of an annotation that are answered by choices, and these."""
    for result in _objects(annotation.get("result"), f"{where}: 'result'"):
        if result.get("type") != "choices":
            continue
        value = result.get("value")
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list) or not all(isinstance(c, str) for c in choices):
            raise InputError(f"{where}: a result of the type 'choices' has no list of choices.")
        yield str(result.get("from_name")), choices


def _objects(value: Any, what: str) -> list[dict[str, Any]]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise InputError(f"{what} must be a list of objects. Export the project again as JSON.")
    return value


def _control(annotations: list[_Annotation], path: Path) -> str | None:
    """Return the question that asks for the label; None if no choice was made."""
    names = {name for annotation in annotations for name in annotation.choices}
    if CONTROL in names or len(names) < 2:
        return CONTROL if CONTROL in names else next(iter(names), None)
    raise InputError(
        f"{path} has answers to several questions: {listed(sorted(names))}. Name the one that asks "
        f"for the label {CONTROL!r} in the labelling config."
    )


def _agreed(annotations: list[_Annotation], control: str | None) -> str | None:
    settled = [a for a in annotations if a.settles]
    answers = {annotation.chosen(control) for annotation in settled or annotations}
    return answers.pop() if len(answers) == 1 else None
