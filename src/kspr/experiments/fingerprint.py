"""Fingerprints of stored results: a digest of a description and of the code that computes from it.

The digest of code is taken over the syntax trees of every module that the computation imports,
directly or indirectly, inside functions too. Comments, docstrings, layout and the file of a
definition do not count: a function that moves to another module gives the same digest.
"""

import ast
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kspr._packages import machine

__all__ = ["code_digest", "fingerprint", "provenance"]

_ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = "kspr"
_NO_INFLUENCE = frozenset(
    {f"{_PACKAGE}._progress", f"{_PACKAGE}.errors", f"{_PACKAGE}.experiments.baselines"}
)
"""Modules that show progress, raise errors or list methods, and never change a number."""


def fingerprint(content: Any, *modules: str, without: tuple[str, ...] = ()) -> str:
    """Return a digest of `content` and of the code of `modules` that computes from it.

    `without` names packages whose code is imported and not run.
    """
    code = code_digest(*modules, without=without)
    text = json.dumps([content, version("knockoffs-spr"), code], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def code_digest(*modules: str, root: Path = _ROOT, without: tuple[str, ...] = ()) -> str:
    """Return a digest of the definitions of `modules` and of all modules that they import.

    `root` is the folder of the package; pass another one to compare two checkouts. Modules of the
    packages `without` do not count.
    """
    statements: set[str] = set()
    for module in _reached(modules, root, without):
        statements |= _statements(_file(module, root) or Path())
    digest = hashlib.sha256()
    # Sorted: the place of a definition does not count.
    for statement in sorted(statements):
        digest.update(statement.encode())
    return digest.hexdigest()[:12]


def _reached(modules: tuple[str, ...], root: Path, without: tuple[str, ...] = ()) -> set[str]:
    """Return `modules` and every module of the package that they import, indirectly too."""
    reached: set[str] = set()
    # With a dot at the end: `kspr.train` is no part of `kspr.trained`.
    left_out = tuple(f"{name}." for name in (*without, *_NO_INFLUENCE))
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in reached:
            continue
        file = _file(module, root)
        if file is None:
            raise ModuleNotFoundError(f"There is no module {module} in {root}.")
        reached.add(module)
        # A change of a message must not discard hours of results.
        waiting += [name for name in _imported(file, root) if not f"{name}.".startswith(left_out)]
    return reached


def _file(module: str, root: Path) -> Path | None:
    path = root.joinpath(*module.split(".")[1:])
    if path.is_dir():
        return path / "__init__.py"
    path = path.with_suffix(".py")
    return path if path.is_file() else None


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _imported(file: Path, root: Path) -> Iterator[str]:
    """Yield the modules of the package that a file imports, or names in full in a string."""
    for node in ast.walk(_without_types(_tree(file))):
        if isinstance(node, ast.ImportFrom) and _is_ours(node.module):
            for alias in node.names:
                # `from kspr.core import x` may name a module or something in one.
                inner = f"{node.module}.{alias.name}"
                yield inner if _file(inner, root) else str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _is_ours(alias.name))
        elif isinstance(node, ast.Constant):
            # A registry may import by name.
            name = str(node.value)
            yield from [name] if _is_ours(name) and _file(name, root) else []


def _is_ours(name: Any) -> bool:
    return isinstance(name, str) and name.split(".")[0] == _PACKAGE and "." in name


def _without_types(tree: ast.Module) -> ast.Module:
    """Return the tree without the imports that serve annotations only."""
    body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING")
    ]
    return ast.Module(body, [])


@cache
def _statements(file: Path) -> frozenset[str]:
    """Return the statements of a module as text, without their positions."""
    kept = [node for node in _tree(file).body if not _is_surface(node)]
    return frozenset(text for text in map(_text, kept) if text)


def _is_surface(node: ast.stmt) -> bool:
    """Return whether a statement only lists or imports names."""
    if isinstance(node, ast.Assign):
        return any(getattr(target, "id", "") == "__all__" for target in node.targets)
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def _text(node: Any) -> str:
    """Return a syntax tree as text: fields in order, without empty ones.

    Unlike that of `ast.dump`, the text is the same under all versions of Python.
    """
    if isinstance(node, list):
        return ",".join(text for text in map(_text, node) if text)
    if not isinstance(node, ast.AST):
        return repr(node)
    if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
        return ""  # a docstring, of a module or of anything in it
    if isinstance(node, ast.ImportFrom) and _is_ours(f"{node.module}."):
        # The module of an imported name does not count, so that definitions can move; "as" does.
        renamed = [(a.name, a.asname) for a in node.names if a.asname not in (None, a.name)]
        return repr(renamed) if renamed else ""
    # New versions of Python add fields to nodes, which are empty for older code.
    fields = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    inside = ",".join(f"{name}={_text(value)}" for name, value in fields)
    return f"{type(node).__name__}({inside})"


def provenance(*modules: str) -> dict[str, Any]:
    """Return machine, versions, digest of the code of `modules` and time, for a stored result."""
    return {
        **machine("numpy", "scipy", "scikit-learn", "knockoffs-spr"),
        "source": code_digest(*modules),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }
