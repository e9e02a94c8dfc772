"""Selections on worker processes: the answer of one machine, whoever works and whoever is lost."""

import os
import signal
import threading
import time

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.errors import InputError
from kspr.selectors.engines.cluster import Cluster, local_cluster
from tests.selectors.clusters import assert_same_bits, noisy_data

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
X, y = noisy_data(1200)


def selector(**choices) -> KnockoffsSPR:
    return KnockoffsSPR(q=0.1, progress=False, **{"fit_rows": 300, **choices})


def on(cluster: Cluster, chunks: int = 400, **choices) -> KnockoffsSPR:
    fitted = selector(engine="dask", client=cluster._client, **choices)
    return fitted.fit(da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=chunks))


@pytest.fixture(scope="module")
def cluster():
    with local_cluster(2) as found:
        yield found


def test_processes_give_the_answer_of_one_machine(cluster):
    assert_same_bits(selector().fit(X, y).selection_, on(cluster).selection_)


def test_small_data_is_judged_by_one_worker_as_on_one_machine(cluster):
    here = selector(fit_rows=None, control="paper").fit(X, y).selection_
    there = on(cluster, fit_rows=None, control="paper").selection_
    np.testing.assert_array_equal(here.q_value, there.q_value)
    assert there.manifest.parameters["engine"] == "dask"
    assert "client" not in there.manifest.parameters
    assert on(cluster, fit_rows=None).classes_.tolist() == [0, 1, 2, 3]


def test_dask_and_arrays_of_this_process_are_not_confused():
    with pytest.raises(InputError, match="Pass engine='dask', or"):
        selector().fit(da.from_array(X), y)
    with pytest.raises(InputError, match="scores does not go with engine='dask'"):
        selector(engine="dask").fit(da.from_array(X), y, scores=X)


def test_checked_rows_move_the_cut_as_on_one_machine(cluster):
    rows = np.arange(0, 1200, 6)
    checked = (rows, np.where(rows % 240 == 0, (y[rows] + 1) % 4, y[rows]))
    here = selector().fit(X, y, checked=checked).selection_
    there = selector(engine="dask", client=cluster._client)
    there.fit(da.from_array(X, chunks=(400, -1)), y, checked=checked)
    assert_same_bits(here, there.selection_)
    assert (there.selection_.cut_groups.status == "checked").all()


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_the_number_of_workers_has_no_part_in_the_answer(n_workers):
    here = selector().fit(X, y).selection_
    with local_cluster(n_workers) as found:
        assert_same_bits(here, on(found, chunks=170).selection_)


def slow_block(block: np.ndarray) -> np.ndarray:
    time.sleep(0.3)
    return block


@pytest.mark.slow
def test_a_worker_that_is_killed_changes_nothing():
    here = selector().fit(X, y).selection_
    with local_cluster(2) as found:
        array = da.from_array(X, chunks=(100, -1)).map_blocks(slow_block, dtype=X.dtype)
        pids = list(found._client.run(os.getpid).values())
        killer = threading.Timer(4.0, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        fitted = selector(engine="dask", client=found._client).fit(array, y)
        killer.join()
        assert_same_bits(here, fitted.selection_)
        assert set(found._client.run(os.getpid).values()) != set(pids)
