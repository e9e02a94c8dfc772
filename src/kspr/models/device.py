"""Where torch computes, and whether bfloat16 can be used there.

Some processors announce instructions for bfloat16 that the virtual machine around them does not
allow (AMX, for example): torch then ends the whole process with SIGILL. A few small layers are
therefore tried in a child process before bfloat16 is used on a CPU.
"""

import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kspr._files import read_json, user_cache, write_json
from kspr._packages import machine, version
from kspr.errors import InputError

if TYPE_CHECKING:
    import torch


class PrecisionWarning(UserWarning):
    """The precision asked for cannot be used on this processor; another one is used."""


def is_cpu(name: str) -> bool:
    """Return whether the device called `name` is a CPU for sure, without importing torch.

    False means that `pick_device` must decide.
    """
    # A build of torch for CPUs alone says so in its version.
    return name == "cpu" or (name == "auto" and (version("torch") or "").endswith("+cpu"))


def pick_device(
    name: str, *, local_rank: int = 0, auto: Sequence[str] = ("cuda", "mps", "cpu")
) -> "torch.device":
    """Return the device called `name`.

    Parameters
    ----------
    name
        ``"auto"``, or a name that torch knows, such as ``"cpu"`` or ``"cuda:1"``.
    local_rank
        Number of the GPU that ``"cuda"`` stands for.
    auto
        Kinds of devices that ``"auto"`` may choose, best first.

    Examples
    --------
    >>> pick_device("cpu")
    device(type='cpu')
    """
    import torch

    here = _devices()
    kinds = {device.partition(":")[0] for device in here}
    chosen = next(kind for kind in auto if kind in kinds) if name == "auto" else name
    # Each process of a machine has its own GPU.
    if chosen == "cuda":
        chosen = f"cuda:{local_rank}"
    try:
        device = torch.device(chosen)
        # torch accepts the names of devices that are missing; only an allocation shows it.
        torch.empty(0, device=device)
    # A torch that was built without CUDA raises AssertionError.
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"device {name!r} is not there. Choose from auto, {', '.join(here)}."
        ) from error
    return device


def _devices() -> list[str]:
    """Return the names of the usual devices of this machine, GPUs first."""
    import torch

    here = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        here.append("mps")
    return [*here, "cpu"]


def use_bfloat16(device: "torch.device", *, strict: bool = False) -> bool:
    """Return whether to compute in bfloat16 on `device`, when the user asked for it.

    Where a CPU cannot, warn with `PrecisionWarning`, or raise `InputError` if `strict`. Devices
    other than CPUs are not tested.
    """
    if device.type != "cpu":
        return True
    verdict = _verdict()
    if verdict.works:
        return True
    why = f"bfloat16 does not work on this processor: a test in a child process {verdict.ending}."
    if strict:
        raise InputError(f"{why} Choose float32, or leave strict out to go on in float32.")
    warnings.warn(f"{why} Computing in float32 instead.", PrecisionWarning, stacklevel=4)
    return False


_SECONDS = 120
"""Time limit of the test; it takes a few seconds, nearly all of them to import torch."""

_PROBE = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except (ImportError, ValueError, OSError):
    pass
import torch
from torch import nn
net = nn.Sequential(
    nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1),
    nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 64),
)
images = torch.rand(32, 3, 16, 16)
for layout in (torch.contiguous_format, torch.channels_last):
    net.to(memory_format=layout)
    with torch.autocast("cpu", torch.bfloat16):
        out = net(images.contiguous(memory_format=layout))
        loss = torch.bmm(out.view(8, 4, 64), out.view(8, 64, 4)).float().square().mean()
    loss.backward()
assert all(torch.isfinite(p.grad).all() for p in net.parameters())
"""
"""Convolutions, linear layers and a batched product, forward and backward, in both layouts."""


class _Verdict(NamedTuple):
    """Result of the test, as the cache file holds it."""

    works: bool
    ending: str
    """How the child process ended, to be put into a sentence."""


def _verdict() -> _Verdict:
    """Return the verdict of the cache file, or test and write one.

    The file is the user's, ``kspr/bfloat16-*.json``, one for each processor and version of torch.
    """
    facts = [
        machine()["cpu"],
        _cpu_flags(),
        version("torch"),
        # Users set these to keep oneDNN, torch's library for CPUs, from instructions that fail.
        os.environ.get("ONEDNN_MAX_CPU_ISA"),
        os.environ.get("DNNL_MAX_CPU_ISA"),
        _PROBE,
    ]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    path = user_cache() / f"bfloat16-{key}.json"
    # Processes that ask at the same time all test and write the same whole file. A cache folder
    # that cannot be used costs a test in each process, and nothing else.
    with suppress(OSError):
        match read_json(path):
            case {"works": bool(works), "ending": str(ending)}:
                return _Verdict(works, ending)
    verdict = _test()
    with suppress(OSError):
        write_json(path, verdict._asdict())
    return verdict


def _cpu_flags() -> str:
    """Return the processor's announced instructions, as far as the system lists them."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return platform.machine()


def _test() -> _Verdict:
    """Run the probe in a child process and return how it ended."""
    # -P: a file called torch.py in the current folder must not be imported instead.
    command = [sys.executable, "-P", "-c", _PROBE]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter and the code above, nothing else
            command, timeout=_SECONDS, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
    except subprocess.TimeoutExpired:
        return _Verdict(False, f"took more than {_SECONDS} seconds")
    except OSError as error:
        return _Verdict(False, f"could not be started ({error})")
    # subprocess gives a death by signal, such as SIGILL, as a negative number.
    if done.returncode < 0:
        return _Verdict(False, f"was ended by {signal.Signals(-done.returncode).name}")
    if done.returncode > 0:
        return _Verdict(False, f"failed with exit code {done.returncode}")
    return _Verdict(True, "succeeded")
