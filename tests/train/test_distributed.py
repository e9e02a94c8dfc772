"""Two real processes: one selection, the same weights, and the command under torchrun."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from kspr.train.world import Group, World, rank_zero_first
from tests.cli.test_train import SHORT

SCRIPT = """
import os, sys
from pathlib import Path
import numpy as np, torch
from kspr.cli import main
from kspr.train import source

torch.set_num_threads(1)
plain = source.train_source

def noted(*given, **how):
    trained = plain(*given, **how)
    weights = np.concatenate([v.numpy().ravel() for v in trained.network.state_dict().values()])
    threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    np.savez(f"rank{os.environ['RANK']}.npz", weights=weights, threads=threads,
             clean=trained.clean_mask, kept=[line["kept"] for line in trained.history])
    return trained

source.train_source = noted
main(sys.argv[1:])
"""


def torchrun(*arguments, cwd):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "2", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        env=environment,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(
    scope="module", params=[pytest.param("network", marks=pytest.mark.slow), "referees"]
)
def command(request, small, tmp_path_factory):
    """The folder of a run of `kspr train` in two processes, and what it printed."""
    folder = tmp_path_factory.mktemp("two")
    np.savez(folder / "data.npz", X=small.X, y=small.y)
    (folder / "script.py").write_text(SCRIPT)
    (folder / "short.toml").write_text(f'select_on = "{request.param}"\n{SHORT}')
    typed = ["train", "data.npz", "--settings", "short.toml", "--out", "run", "--json"]
    return folder, torchrun("script.py", *typed, cwd=folder)


@pytest.fixture(scope="module")
def ranks(command):
    return [dict(np.load(command[0] / f"rank{rank}.npz")) for rank in (0, 1)]


def test_the_command_gives_one_answer(command):
    folder, said = command
    assert json.loads(said)["last_epoch"]["epoch"] == 3  # from rank 0
    assert len((folder / "run" / "metrics.jsonl").read_text().splitlines()) == 3


def test_every_rank_has_the_same_clean_set(ranks, small):
    assert np.array_equal(ranks[0]["clean"], ranks[1]["clean"])
    assert 0.3 < ranks[0]["clean"].mean() < 0.9
    assert small.right[ranks[0]["clean"]].mean() > small.right.mean()


def test_every_rank_ends_with_the_same_network(ranks):
    assert np.array_equal(ranks[0]["weights"], ranks[1]["weights"])
    assert np.array_equal(ranks[0]["kept"], ranks[1]["kept"])


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed by Linux")
def test_no_thread_of_the_group_is_left(ranks):
    """One that asks for Python while that is closing down would abort the process."""
    assert all(len(rank["threads"]) >= 1 for rank in ranks)
    assert not [name for rank in ranks for name in rank["threads"] if "gloo" in name]


UNEQUAL = """
import os, sys
import numpy as np
from kspr.models import device
from kspr.train import TrainSettings, fit

device._PROBE = "raise SystemExit(1)" if os.environ["RANK"] == "1" else "pass"
data = np.load(sys.argv[1])
settings = TrainSettings.from_preset("cpu", epochs=1, batch_size=32, precision="bfloat16")
trained = fit(data["X"], data["y"], settings=settings)
with open(f"rank{os.environ['RANK']}.txt", "w") as out:
    out.write(trained.settings.precision)
"""


@pytest.mark.slow
def test_one_machine_without_bfloat16_means_float32_on_all(small, tmp_path):
    np.savez(tmp_path / "data.npz", X=small.X, y=small.y)
    (tmp_path / "script.py").write_text(UNEQUAL)
    torchrun("script.py", "data.npz", cwd=tmp_path)
    found = [(tmp_path / f"rank{rank}.txt").read_text() for rank in (0, 1)]
    assert found == ["float32", "float32"]


@pytest.mark.parametrize("n", [1, 7, 8])
def test_shards_are_gathered_in_the_order_of_rows(monkeypatch, n):
    rows = torch.arange(2 * n).reshape(n, 2)
    groups = [_group(rank) for rank in (0, 1)]
    parts = [group.shard(rows) for group in groups]
    assert abs(len(parts[0]) - len(parts[1])) <= 1
    longest = max(map(len, parts))
    padded = [torch.cat([p, p.new_zeros(longest - len(p), 2)]) for p in parts]

    def gather(out, own):
        for place, value in zip(out, padded, strict=True):
            place.copy_(value)

    monkeypatch.setattr("kspr.train.world.dist.all_gather", gather)
    assert torch.equal(groups[1].all_gather(parts[1], n), rows)


def test_one_process_has_nobody_to_wait_for():
    alone, rows = World(torch.device("cpu")), torch.arange(3)
    assert alone.shard(rows) is alone.all_gather(rows, 3) is alone.broadcast(rows) is rows
    assert rank_zero_first(alone, lambda: "done") == "done"


def _group(rank):
    group = object.__new__(Group)
    group.rank, group.size, group.device = rank, 2, torch.device("cpu")
    return group
