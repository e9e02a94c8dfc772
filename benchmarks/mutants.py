"""Change the source at random places, one at a time, and count what the tests notice.

Run by `make mutants`, where `make test` passes. A changed copy of the package is tested by the
files that import the changed module, and then by all of its room, until a test fails, which is
named: one that has nothing to do with the change is a chance failure. A mutant that survives names
its place: write a test that fails for it, unless both forms mean the same.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

import numpy as np

from _common import ROOT, arguments, either, markdown_table

ROOMS = ("core", "selectors", "runs")
ONLY = either("", "core/metrics.py")
"""Part of the path of the files to change; nothing stands for all."""
SECONDS = 600
"""A mutant that runs longer does not end by itself: it is noticed."""
OTHERS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
"""Which operator stands in the place of which."""
QUIET = (ast.JoinedStr, ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)
"""What is not changed: words, and what cannot happen."""


@dataclass(frozen=True)
class Mutant:
    """The source of a module with one change."""

    module: str
    """Its path below src/kspr."""
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}: {self.before} -> {self.after}"


def places(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a tree that can be changed, annotations and words left out."""
    if isinstance(node, QUIET) or "TYPE_CHECKING" in ast.dump(getattr(node, "test", ast.Pass())):
        return
    if _changed(node, undo=True):
        yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns", "decorator_list"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from places(child)


def _changed(node: ast.AST, *, undo: bool = False) -> bool:
    """Change a part of a tree in place; return whether there is a change for such a part."""
    match node:
        case ast.Compare(ops=[op]) | ast.BinOp(op=op) | ast.BoolOp(op=op) | ast.AugAssign(op=op):
            if type(op) not in OTHERS:
                return False
            other = op if undo else OTHERS[type(op)]()
            if isinstance(node, ast.Compare):
                node.ops = [other]
            else:
                node.op = other
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            node.test = test if undo else ast.UnaryOp(ast.Not(), test)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
            node.operand = operand if undo else ast.UnaryOp(node.op, operand)
        case ast.Constant(value=bool(value)):
            node.value = value if undo else not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value if undo else value + 1
        case _:
            return False
    return True


def mutant(path: Path, number: int) -> Mutant:
    """Return the source of a module with the change of one of its places."""
    tree = ast.parse(path.read_text())
    node = list(places(tree))[number]
    head = isinstance(node, ast.If | ast.While)
    before = ast.unparse(node.test if head else node)
    _changed(node)
    after = ast.unparse(node.test if head else node)
    where = str(path.relative_to(ROOT / "src" / "kspr"))
    return Mutant(where, node.lineno, before, after, ast.unparse(tree))


def drawn(n: int, seed: int, rooms: tuple[str, ...], only: str) -> list[Mutant]:
    """Return `n` mutants of random places of all modules of some rooms."""
    modules = [path for room in rooms for path in sorted((ROOT / "src/kspr" / room).rglob("*.py"))]
    every = [
        (path, number)
        for path in modules
        if only in str(path)
        for number in range(sum(1 for _ in places(ast.parse(path.read_text()))))
    ]
    chosen = np.random.default_rng(seed).permutation(len(every))[:n]
    return [mutant(*every[k]) for k in chosen]


def tests_of(module: str) -> list[list[str]]:
    """Return the test files that import a module, and then the other ones of its room."""
    room, stem = module.split("/")[0], Path(module).stem
    folders = [ROOT / "tests" / name for name in dict.fromkeys((room, *ROOMS, "cli"))]
    files = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    own = [path for path in files if path.is_relative_to(ROOT / "tests" / room)]
    named = re.compile(rf"(kspr\.[\w.]*|from kspr\.[\w.]+ import [^\n]*)\b{stem}\b")
    near = [path for path in files if named.search(path.read_text())]
    near.sort(key=lambda path: (path.stem != f"test_{stem}", path not in own))
    if ONLY:
        return [[str(path) for path in near[:1]]]
    return [[str(path) for path in part] for part in (near, [p for p in own if p not in near])]


def noticed(changed: Mutant, source: Path) -> str:
    """Return the first test that fails with a mutant in a copy of the source; "" if none does."""
    path = source / "kspr" / changed.module
    original = path.read_text()
    path.write_text(changed.source)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    try:
        for files in filter(None, tests_of(changed.module)):
            done = subprocess.run(
                [*command, *files],
                cwd=ROOT,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=SECONDS,
            )
            if done.returncode:
                found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return found[1] if found else f"pytest ended with {done.returncode}"
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} s"
    finally:
        path.write_text(original)
    return ""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=either(30, 2), help="number of mutants")
    parser.add_argument("--seed", type=int, default=0, help="draws other mutants")
    parser.add_argument("--rooms", nargs="+", default=ROOMS, help="others too")
    parser.add_argument("--only", default=ONLY, help="part of the path of the files to change")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    report(parser.parse_args())


def report(chosen: argparse.Namespace) -> None:
    """Test the mutants, print each with the test that noticed it, and what survived at the end."""
    mutants = drawn(chosen.n, chosen.seed, tuple(chosen.rooms), chosen.only)
    survived: list[Mutant] = []
    copies: Queue[Path] = Queue()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(chosen.jobs) as pool:
        for number in range(chosen.jobs):
            copies.put(Path(shutil.copytree(ROOT / "src", Path(folder) / str(number))))

        def tried(changed: Mutant) -> str:
            source = copies.get()
            try:
                return noticed(changed, source)
            finally:
                copies.put(source)

        for changed, by in zip(mutants, pool.map(tried, mutants), strict=True):
            print(f"{changed}\n    {by or 'SURVIVED'}", flush=True)
            survived += [] if by else [changed]
    rows = [
        [room, str(len(own)), str(sum(m not in survived for m in own))]
        for room in chosen.rooms
        if (own := [m for m in mutants if m.module.startswith(room + "/")])
    ]
    print(markdown_table(["room", "mutants", "noticed"], rows))
    print(*(f"survived: {changed}" for changed in survived), sep="\n")


if __name__ == "__main__":
    main()
