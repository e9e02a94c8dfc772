"""Damaged input of every kind: one sentence, or a result that is consistent; never anything else.

A case is drawn from its number and the seed. `KSPR_HOSTILE_CASES` and `KSPR_HOSTILE_SEED` set how
many there are and where they begin; `make test-hostile` runs 5,000.
"""

import os
import resource
import shutil
import signal
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kspr.errors import KsprError
from tests.hostile.made_by_kspr import RUNS, TRAINED
from tests.hostile.mutations import damage
from tests.hostile.published import PUBLISHED
from tests.hostile.targets import FILES, LABEL_FILES, Target

CASES = int(os.environ.get("KSPR_HOSTILE_CASES", "500"))
SEED = int(os.environ.get("KSPR_HOSTILE_SEED", "0"))
TARGETS = {target.name: target for target in (*FILES, *LABEL_FILES, *PUBLISHED, *RUNS, *TRAINED)}
SECONDS = 30
"""A case that takes longer counts as one that hangs; most take a hundredth of a second."""
MEMORY = 1 << 30
"""Bytes that a case may ask for; the inputs have a few thousand."""
SENTENCE = 900
"""Characters that a message may have; paths in it may be long."""


def cases() -> list[Any]:
    """Return the names and numbers of the cases; each target has its share."""
    turns = [name for name, target in TARGETS.items() for _ in range(target.weight)]
    names = [turns[k % len(turns)] for k in range(CASES)]
    # All cases of a target one after another: they share what was built once.
    return [
        pytest.param(name, number, id=f"{name}-{number}".replace(" ", "-"))
        for name in TARGETS
        for number in range(names.count(name))
    ]


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return a target's folder, built at its first use, and the result of its use."""
    made: dict[str, tuple[Path, Any]] = {}

    def build(target: Target) -> tuple[Path, Any]:
        if target.name not in made:
            root = tmp_path_factory.mktemp("hostile")
            (root / "whole").mkdir()
            target.build(root / "whole")
            shutil.copytree(root / "whole", root / "used")
            made[target.name] = root / "whole", target.use(root / "used")
        return made[target.name]

    return build


class Hangs(BaseException):
    """No `Exception`: code that reads damaged files may catch those."""


@contextmanager
def limited() -> Iterator[None]:
    """Let the block neither hang nor take all memory."""

    def stop(*_: Any) -> None:
        raise Hangs(f"more than {SECONDS} seconds")

    before, limits = signal.signal(signal.SIGALRM, stop), resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, limits[1]))
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def outcome(target: Target, folder: Path) -> Any:
    """Use damaged input; return the result, or check and return the error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limited():
                return target.use(folder)
        except KsprError as error:
            check_sentence(str(error))
            return error


def check_sentence(message: str) -> None:
    assert "\n" not in message
    assert message.strip()
    assert len(message) <= SENTENCE + len("kspr: ")


@pytest.mark.parametrize("name", TARGETS)
def test_undamaged_input_is_read(name, built, tmp_path):
    whole, expected = built(TARGETS[name])
    folder = Path(shutil.copytree(whole, tmp_path / "case"))
    assert outcome(TARGETS[name], folder) == expected


@pytest.mark.parametrize(("name", "number"), cases())
def test_damage_ends_in_one_sentence_or_in_a_consistent_result(
    name, number, built, tmp_path, request
):
    target = TARGETS[name]
    whole, expected = built(target)
    rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), number])
    folder = Path(shutil.copytree(whole, tmp_path / "case"))
    files = sorted(path for path in folder.glob(target.damaged) if path.is_file())
    file = files[rng.integers(len(files))]
    before = file.read_bytes()
    what = damage(file, rng)
    if target.mended is not None:
        target.mended(folder)
    try:
        found = outcome(target, folder)
    except BaseException as error:
        how = f"KSPR_HOSTILE_CASES={CASES} KSPR_HOSTILE_SEED={SEED} pytest"
        error.add_note(f"{what}; to run this case alone: {how} {request.node.nodeid!r}")
        raise
    # A change may leave a file as it was.
    if file.is_file() and file.read_bytes() == before:
        assert found == expected
