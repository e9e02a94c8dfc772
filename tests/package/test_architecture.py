"""The house: who may import whom, no reaching into private rooms, no circles."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kspr

SOURCE = Path(kspr.__file__).parent
MAY = {
    "core": set(),
    "noise": {"core"},
    "selectors": {"core", "noise"},
    "sources": {"core", "noise"},
    "models": {"core"},
    "features": {"core", "models", "sources"},
    "runs": {"core", "features", "noise", "selectors", "sources"},
    "train": {"core", "features", "models", "noise", "runs", "selectors", "sources"},
    "experiments": {"core", "features", "models", "noise", "runs", "selectors", "sources", "train"},
    "report": {"core", "features", "runs", "selectors", "sources"},
    "review": {"core", "features", "report", "runs", "selectors", "sources"},
}
"""What each room may import besides itself; docs/architecture.md draws it."""
MAY["cli"] = set(MAY)
UPWARD = {
    ("kspr.selectors.selection", "kspr.runs.storage"),
    ("kspr.selectors.selection", "kspr.report"),
    ("kspr.selectors.selection", "kspr.report.contents"),
    ("kspr.selectors.selection", "kspr.report.plots"),
}
"""The imports that point up, in methods of a value: `Selection.save` and `load`, because files are
runs', and `Selection.report` and `plot`, because pages and figures are the report's."""
BESIDE = {"errors", "_arrow", "_files", "_figures", "_packages", "_progress", "_text"}
"""Modules that stand beside the rooms: any room may use them, and they use no room."""


def modules() -> dict[str, Path]:
    """Return every module of the package by its full name."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = modules()


def imports(name: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the modules of the package that `name` imports, wherever in it, and the statement."""
    for node in ast.walk(ast.parse(MODULES[name].read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "kspr":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else str(node.module), node
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "kspr":
                    yield alias.name, node


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


@pytest.mark.parametrize("name", [m for m in MODULES if room(m) not in ("", "__main__")])
def test_imports_point_down_only(name):
    own = room(name)
    allowed = BESIDE if own in BESIDE else {own} | MAY[own] | BESIDE
    used = {room(other) or "kspr" for other, _ in imports(name) if (name, other) not in UPWARD}
    assert used <= allowed | ({"kspr"} if own == "cli" else set())


def test_every_folder_is_a_room():
    folders = {p.name for p in SOURCE.iterdir() if p.is_dir() and p.name != "__pycache__"}
    assert folders <= set(MAY)


@pytest.mark.parametrize("name", MODULES)
def test_no_room_imports_a_private_module_of_another(name):
    reached = {other for other, _ in imports(name) if room(other) not in BESIDE}
    foreign = {other for other in reached if room(other) != room(name)}
    assert not [other for other in foreign if any(p.startswith("_") for p in other.split(".")[1:])]


def test_nothing_imports_in_a_circle():
    """Imports inside functions count as well, but those that point up; annotations do not."""
    graph: dict[str, set[str]] = {}
    for name in MODULES:
        typing = annotations_only(name)
        graph[name] = {
            other
            for other, node in imports(name)
            if ast_key(node) not in typing and other != name and (name, other) not in UPWARD
        }
    # The lazy package fronts name their own modules, which is what they are for.
    for front in [name for name, path in MODULES.items() if is_front(path)]:
        graph[front] = set()
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def annotations_only(name: str) -> set[tuple[int, int]]:
    """Return the imports below ``if TYPE_CHECKING``."""
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CH" in ast.dump(n.test)]
    return {ast_key(inner) for block in blocks for inner in ast.walk(block)}


def ast_key(node: ast.AST) -> tuple[int, int]:
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def is_front(path: Path) -> bool:
    return path.name == "__init__.py" and "def __getattr__" in path.read_text("utf-8")


SAME_IDEA = {
    "cluster": "rows on the workers of a Dask cluster: of a collection, and of files",
    "figures": "what all figures share, and the figures of the paper",
    "fitting": "a fit to labels that are partly wrong: of the halves, and of a network",
    "options": "what a user may choose: of a source, and of a selector",
    "parts": "rows that are read a part at a time: of features, and of files",
    "pieces": "the paper's pieces, and the selectors that split data into them",
    "selfcheck": "the test itself, and the test on a run",
}
"""Names of modules that stand in several rooms, and the idea that they share."""


def test_a_name_stands_in_several_rooms_only_for_one_idea():
    rooms: dict[str, set[str]] = {}
    for name in MODULES:
        # A command bears the name of what it calls.
        if MODULES[name].name != "__init__.py" and room(name) != "cli":
            rooms.setdefault(name.split(".")[-1].lstrip("_"), set()).add(room(name))
    assert {leaf for leaf, found in rooms.items() if len(found) > 1} == set(SAME_IDEA)
