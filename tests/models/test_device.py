"""Devices, and bfloat16 that is tested in a child process before it is used."""

import json
import os
import subprocess
import sys
import warnings

import pytest
import torch

from kspr._files import user_cache
from kspr.errors import InputError
from kspr.models import device
from kspr.models.device import (
    PrecisionWarning,
    is_cpu,
    pick_device,
    use_bfloat16,
)

CPU = torch.device("cpu")
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def probe(tmp_path, monkeypatch):
    """Replace the probe by other code; return a function that counts how often it ran."""
    log = tmp_path / "asked"

    def replace(code):
        counted = f"open({str(log)!r}, 'a').write('x'); {code}"
        monkeypatch.setattr(device, "_PROBE", counted)
        return lambda: len(log.read_text()) if log.exists() else 0

    return replace


def bfloat16_works():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return use_bfloat16(CPU)


def files():
    return list(user_cache().glob("bfloat16-*.json"))


@pytest.mark.parametrize("name", ["cuda:99", "tpu", "mps:3"])
def test_a_device_that_is_not_there_is_refused(name):
    with pytest.raises(InputError, match=f"device '{name}' is not there. Choose from auto, "):
        pick_device(name)


def test_auto_takes_the_first_kind_that_is_there(monkeypatch):
    monkeypatch.setattr(device, "_devices", lambda: ["mps", "cpu"])
    assert pick_device("auto", auto=("cuda", "cpu")) == CPU
    monkeypatch.setattr(device, "_devices", lambda: ["cpu"])
    assert pick_device("auto") == CPU


@pytest.mark.parametrize(
    ("code", "says"),
    [
        (DIES, "was ended by SIGILL"),
        ("raise SystemExit(3)", "failed with exit code 3"),
        ("import time; time.sleep(60)", "took more than 1 seconds"),
    ],
)
def test_a_test_that_dies_fails_or_hangs_means_float32_and_one_sentence(
    probe, monkeypatch, code, says
):
    if "sleep" in code:
        monkeypatch.setattr(device, "_SECONDS", 1)
    probe(code)
    with pytest.warns(PrecisionWarning) as said:
        assert not use_bfloat16(CPU)
    assert [str(warning.message) for warning in said] == [
        f"bfloat16 does not work on this processor: a test in a child process {says}. "
        "Computing in float32 instead."
    ]
    assert not bfloat16_works()


def test_strict_refuses_instead(probe):
    probe(DIES)
    with pytest.raises(InputError, match=r"ended by SIGILL\. Choose float32, or leave strict out"):
        use_bfloat16(CPU, strict=True)


def test_devices_other_than_cpus_are_not_tested(probe):
    count = probe(DIES)
    assert use_bfloat16(torch.device("cuda:0"))
    assert count() == 0


@pytest.mark.parametrize(("code", "works"), [("pass", True), (DIES, False)])
def test_the_verdict_is_asked_for_once_and_kept_on_disk(probe, code, works):
    count = probe(code)
    assert [bfloat16_works() for _ in range(3)] == [works] * 3
    assert count() == 1
    assert json.loads(files()[0].read_text())["works"] is works


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"works": 1}', b'{"works": "yes", "ending": ""}', b"\xff"],
)
def test_a_damaged_cache_file_is_made_again(probe, content):
    count = probe("pass")
    assert bfloat16_works()
    (path,) = files()
    path.write_bytes(content)
    assert bfloat16_works()
    assert count() == 2
    assert json.loads(path.read_text())["works"] is True


def test_a_limit_on_instructions_is_another_verdict(probe, monkeypatch):
    count = probe("pass")
    assert bfloat16_works()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")
    assert bfloat16_works()
    assert count() == len(files()) == 2


def test_a_cache_that_cannot_be_written_costs_only_another_test(probe, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    count = probe("pass")
    assert bfloat16_works()
    assert bfloat16_works()
    assert count() == 2


def test_processes_that_ask_at_once_all_get_the_verdict(tmp_path):
    """Four processes without a cache; afterwards there is one whole file."""
    code = (
        "from kspr.models import device\n"
        "device._PROBE = 'import time; time.sleep(0.3)'\n"
        "print(device.use_bfloat16(device.pick_device('cpu')))"
    )
    command = [sys.executable, "-c", code]
    children = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
        for _ in range(4)
    ]
    assert [child.communicate(timeout=60)[0].strip() for child in children] == ["True"] * 4
    (path,) = files()
    assert json.loads(path.read_text()) == {"works": True, "ending": "succeeded"}
    assert list(user_cache().iterdir()) == [path]


def test_the_real_probe_gives_a_verdict_and_leaves_this_process_alive():
    assert bfloat16_works() in (True, False)
    assert files()


@pytest.mark.parametrize(
    ("name", "torch_version", "sure"),
    [
        ("cpu", "2.9.0", True),
        ("auto", "2.9.0+cpu", True),
        ("auto", "2.9.0", False),
        ("auto", "2.9.0+cu128", False),
        ("auto", None, False),
        ("cuda", "2.9.0+cpu", False),
    ],
)
def test_a_cpu_is_known_without_torch_where_there_is_nothing_else(
    monkeypatch, name, torch_version, sure
):
    monkeypatch.setattr(device, "version", lambda _: torch_version)
    assert is_cpu(name) is sure
