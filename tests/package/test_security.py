"""What SECURITY.md says that the package never does, read from the source."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import kspr

SOURCE = Path(kspr.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
NEVER_CALLED = {
    *("eval", "exec", "compile", "__import__", "breakpoint"),
    *("os.system", "os.popen", "pickle.load", "pickle.loads", "joblib.load", "marshal.loads"),
    *("yaml.load", "torch.hub.load", "shelve.open"),
}
NEVER_IMPORTED = {
    *("subprocess", "pty", "shelve", "marshal", "dill", "cloudpickle"),
    # SECURITY.md says that there is one server, and no connection. Change both together.
    *("socket", "socketserver", "ssl", "http", "urllib", "ftplib", "smtplib", "xmlrpc"),
    *("requests", "httpx", "aiohttp", "fastapi", "flask", "uvicorn", "starlette"),
}
REQUIRED = {
    "np.load": ("allow_pickle", False),
    "npy_format.read_array": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
    "SentenceTransformer": ("trust_remote_code", False),
    "loader.from_pretrained": ("trust_remote_code", False),
}
"""A call, as it is written here, and the argument that it must have."""
ALLOWED = {
    "_packages.py": {"subprocess"},
    "models/device.py": {"subprocess"},
    "review/app.py": {"starlette"},
    "review/server.py": {"socket", "starlette", "uvicorn"},
    "sources/formats.py": {"fsspec", "urllib"},
}
"""Exceptions that SECURITY.md names: git tells the commit of a checkout; bfloat16 may kill a
process, so a child tries it first; the server of `kspr review`; and sources at an address."""
SAFE_DEFAULTS = {"np.load": "False"}
"""What a call that leaves the argument out gets, in every version that pyproject.toml allows."""


def calls(module: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imports(module: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda m: str(m.relative_to(SOURCE)))
def test_no_module_evaluates_text_or_opens_a_connection(module):
    assert NEVER_CALLED.isdisjoint(name for name, _ in calls(module))
    allowed = ALLOWED.get(module.relative_to(SOURCE).as_posix(), set())
    assert NEVER_IMPORTED.isdisjoint(imports(module) - allowed)


def test_git_is_started_with_words_that_are_written_here():
    """Nothing from outside is in the command, no shell reads it, and no other function calls it."""
    packages = SOURCE / "_packages.py"
    (run,) = [call for name, call in calls(packages) if name == "subprocess.run"]
    assert ast.unparse(run.args[0]) == "['git', '-C', str(folder), *command, '--', '.']"
    assert "shell" not in {keyword.arg for keyword in run.keywords}
    asked = [call for name, call in calls(packages) if name == "_git"]
    assert all(isinstance(word, ast.Constant) for call in asked for word in call.args)
    assert len(asked) == 2
    assert not [m for m in MODULES if m != packages and "_git" in {name for name, _ in calls(m)}]


def test_the_only_other_program_that_is_started_is_this_python_with_fixed_code():
    """The command is a list without anything from outside, and no shell reads it."""
    device = SOURCE / "models" / "device.py"
    (run,) = [call for name, call in calls(device) if name.startswith("subprocess.")]
    assert ast.unparse(run.args[0]) == "command"
    assert "shell" not in {keyword.arg for keyword in run.keywords}
    assert 'command = [sys.executable, "-P", "-c", _PROBE]' in device.read_text()


def test_every_loader_is_told_not_to_run_code():
    seen = set()
    for module in MODULES:
        for name, call in calls(module):
            for loader, (argument, value) in REQUIRED.items():
                if name == loader or name.endswith(f".{loader}"):
                    given = {k.arg: ast.unparse(k.value) for k in call.keywords}
                    said = given.get(argument, SAFE_DEFAULTS.get(loader))
                    assert said == str(value), f"{module}:{call.lineno}"
                    seen.add(loader)
    # A loader that is written in another way now would not be checked any more.
    assert seen == set(REQUIRED)


def test_only_the_reader_of_published_pickles_unpickles():
    users = {m.name for m in MODULES if "Unpickler" in m.read_text()}
    assert users == {"_cifar_files.py"}


def test_only_the_users_own_word_imports_a_module_by_name():
    """A run folder is read by `train` and `runs`: neither hands a name on to an import."""
    by_name = {
        "_app.py",  # commands, by names that stand in the source
        "__init__.py",  # names that stand in the source, and the embedder module:function of a user
        "_packages.py",  # optional packages, the same
        "weights.py",  # transformers, for its own errors
    }
    assert {m.name for m in MODULES if "import_module(" in m.read_text()} == by_name
    source = (SOURCE / "train" / "source.py").read_text()
    assert "named is None and stored.embedder is not None and is_function(" in source


def test_the_report_escapes_and_loads_nothing_from_outside():
    templates = SOURCE / "report" / "templates"
    assert "default-src 'none'" in (templates / "page.html").read_text()
    for page in ("report.html", "training.html"):
        assert (templates / page).read_text().startswith('{% extends "page.html" %}')
    assert not [t for t in templates.iterdir() if "|safe" in t.read_text().replace(" ", "")]
    assert "autoescape=True" in (SOURCE / "report" / "contents.py").read_text()
