"""How a cell is kept: under a fingerprint of all that its values follow from."""

import hashlib
import json
import os
import platform
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kspr._files import staged

__all__ = ["fingerprint", "machine", "read_json", "source_digest", "write_json"]

_DECIDES = (
    "core",
    "selectors",
    "data",
    "train",
    "experiments/cells",
    "experiments/samples.py",
    "experiments/_stored.py",
)
"""Parts of the package whose change may change a number."""


def fingerprint(content: Any) -> str:
    """Return a name for `content` together with the code that computes from it."""
    text = json.dumps([content, version("knockoffs-spr"), source_digest()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


@cache
def source_digest() -> str:
    """Return a digest of the code: a version alone stays the same while it is worked on."""
    root, digest = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for part in _DECIDES:
        path = root / part
        for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def machine() -> dict[str, Any]:
    """Return what a reader needs to judge seconds, and when they were measured."""
    packages = ("numpy", "scipy", "scikit-learn", "knockoffs-spr")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "source": source_digest(),
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def write_json(path: Path, content: Any) -> None:
    """Write a document whole or not at all."""
    with staged(path) as staging:
        staging.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def read_json(path: Path) -> Any:
    """Return a document; None where there is none, or one that was cut off."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return None
