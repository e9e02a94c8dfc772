"""How a cell is kept, and on which machine it was computed."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kspr._files import staged
from kspr.experiments.fingerprint import code_digest

__all__ = ["machine", "read_json", "write_json"]


def machine(*modules: str) -> dict[str, Any]:
    """Return what a reader needs to judge seconds, when they were measured, and by which code."""
    packages = ("numpy", "scipy", "scikit-learn", "knockoffs-spr")
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "source": code_digest(*modules),
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
