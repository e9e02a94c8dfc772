"""What is published: it can be built, holds what it must, and works where the source is not."""

import os
import site
import subprocess
import sys
import tarfile
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import kspr

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "kspr"
DATA = {
    *("kspr/py.typed", "kspr/_look.css", "kspr/report/templates/report.html"),
    *("kspr/report/templates/style.css", "kspr/review/page/page.html", "kspr/review/page/main.js"),
    *("kspr/experiments/reproduce/recipes/table1.toml", "kspr/train/presets/cpu.toml"),
}
SELECTION = """
import numpy as np, kspr
rng = np.random.default_rng(0)
y_true = np.arange(300) % 3
X = rng.standard_normal((300, 4)) + 6 * np.eye(3, 4)[y_true]
y = np.where(np.arange(300) < 30, (y_true + 1) % 3, y_true)
selection = kspr.KnockoffsSPR(q=0.02).fit(X, y).selection_
print(kspr.__file__, len(selection.clean_indices), selection.clean_mask[:30].mean())
"""


def run(*command: str | Path, where: Path) -> str:
    """Run a command away from the source, with no path of ours in its environment."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@dataclass(frozen=True)
class Built:
    sdist: Path
    wheel: Path
    """Built from the unpacked sdist, as an index's users may have to."""

    @property
    def in_wheel(self) -> set[str]:
        return set(zipfile.ZipFile(self.wheel).namelist())

    @property
    def in_sdist(self) -> set[str]:
        with tarfile.open(self.sdist) as archive:
            return {name.partition("/")[2] for name in archive.getnames()}


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    folder = tmp_path_factory.mktemp("dist")
    # Not isolated: hatchling comes from the dev extra, and nothing is downloaded.
    run(sys.executable, "-m", "build", "--no-isolation", "-o", folder, ROOT, where=folder)
    [sdist], [wheel] = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


@dataclass(frozen=True)
class Environment:
    folder: Path

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    def pip(self, *arguments: str | Path) -> None:
        interpreter = self.bin / "python"
        run(
            *(sys.executable, "-m", "pip", "--python", interpreter, "--quiet"),
            *("--disable-pip-version-check", *arguments),
            where=self.folder,
        )


def fresh_environment(folder: Path, *, borrow: bool) -> Environment:
    """Make a virtual environment; `borrow` lends it the packages of the running one.

    The lent folder comes after the environment's own, and its .pth files are not read: so neither
    the editable kspr nor its source can be found.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    if borrow:
        [own] = folder.glob("lib/python*/site-packages")
        (own / "borrowed.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return Environment(folder)


def assert_works(environment: Environment, where: Path) -> None:
    version = f"{kspr.__version__}"
    assert run(environment.bin / "kspr", "--version", where=where) == version
    assert run(environment.bin / "python", "-m", "kspr", "--version", where=where) == version
    found = run(environment.bin / "python", "-c", SELECTION, where=where).split()
    file, kept, wrong = Path(found[0]), int(found[1]), float(found[2])
    assert file.is_relative_to(environment.folder)
    assert kept > 200
    assert wrong < 0.5


def test_python_m_kspr_is_the_command_line(tmp_path):
    said = run(sys.executable, "-m", "kspr", "--version", where=tmp_path)
    assert said == kspr.__version__


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_installed_distribution_works_without_the_source(built, kind, tmp_path):
    environment = fresh_environment(tmp_path / "environment", borrow=True)
    # --ignore-installed: the lent packages hold an editable kspr, which must not count.
    environment.pip(
        *("install", "--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed"),
        getattr(built, kind),
    )
    assert_works(environment, tmp_path)


def test_wheel_and_sdist_hold_every_file_of_the_package(built):
    files = {
        f"kspr/{path.relative_to(SOURCE).as_posix()}"
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files >= DATA
    assert files <= built.in_wheel
    assert {f"src/{name}" for name in files} <= built.in_sdist


def test_the_wheel_holds_the_package_and_nothing_else(built):
    tops = {name.partition("/")[0] for name in built.in_wheel}
    assert tops == {"kspr", f"knockoffs_spr-{kspr.__version__}.dist-info"}
    assert built.wheel.stat().st_size < 1_000_000


def test_the_sdist_holds_what_its_own_tests_need(built):
    needed = {"LICENSE", "README.md", "Makefile", "pyproject.toml", "constraints.txt"}
    needed |= {"tests/package/test_distribution.py", "benchmarks/results/speed.jsonl"}
    needed |= {".github/workflows/tests.yml", ".pre-commit-config.yaml", "CITATION.cff"}
    assert needed <= built.in_sdist
    assert not [name for name in built.in_sdist if ".venv" in name or "__pycache__" in name]
    assert built.sdist.stat().st_size < 3_000_000


def test_the_metadata_are_those_of_an_index_page(built):
    with zipfile.ZipFile(built.wheel) as archive:
        [name] = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode()
    head, _, page = text.partition("\n\n")
    assert "License-Expression: BSD-3-Clause" in head
    assert "Description-Content-Type: text/markdown" in head
    assert page.startswith("# knockoffs-spr")


@pytest.mark.slow
def test_a_wheel_brings_all_that_it_needs(built, tmp_path):
    """Installs real dependencies, so it needs a package index; nothing is lent."""
    environment = fresh_environment(tmp_path / "environment", borrow=False)
    environment.pip("install", "--constraint", ROOT / "constraints.txt", f"{built.wheel}[report]")
    assert_works(environment, tmp_path)
    run(environment.bin / "kspr", "demo", where=tmp_path)
