"""Selections on worker processes: the answer of one machine, whoever works and whoever is lost."""

import gc
import os
import signal
import socket
import threading
import time

import numpy as np
import pytest

from kspr import KnockoffsSPR
from kspr.errors import InputError
from kspr.noise import symmetric
from kspr.selectors import cluster
from kspr.selectors.cluster import calls, opened_client, results
from kspr.selectors.parts import is_dask
from tests.selectors.test_parts import assert_same_bits

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


def noisy_data(n: int, p: int = 12, c: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return classes around centres, with a fifth of the labels wrong, and some copies."""
    rng = np.random.default_rng(n)
    true = rng.integers(0, c, n)
    X = rng.standard_normal((c, p))[true] + 0.7 * rng.standard_normal((n, p))
    X[-20:], true[-20:] = X[:20] + 1e-6, true[:20]
    return X.astype(np.float32), symmetric(true, 0.2, 0)


X, y = noisy_data(1200)
CHOICES = {
    "fitted whole": {},
    "fitted in part": {"fit_rows": 300},
    "no copies": {"fit_rows": 300, "duplicates": "ignore"},
    "exchangeable": {"control": "exchangeable", "cut": "per_class"},
    "splits": {"n_splits": 2, "fit_rows": 300},
    "neighbours": {"neighbours": 10},
    "components": {"reduction": 6},
}


@pytest.fixture(scope="module")
def client():
    with opened_client("local") as found:
        yield found


def selector(**choices) -> KnockoffsSPR:
    return KnockoffsSPR(q=0.1, progress=False, **choices)


def cut(chunks: int = 170):
    return da.from_array(X, chunks=(chunks, 5)), da.from_array(y, chunks=chunks)


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_partitions_give_the_answer_of_one_machine(client, choice):
    here = selector(**choice).fit(X, y).selection_
    there = selector(client=client, **choice).fit(*cut()).selection_
    assert_same_bits(here, there)
    assert "client" not in there.manifest.parameters


def test_labels_and_groups_may_be_in_this_process_or_on_the_cluster(client):
    groups = np.arange(1200) // 3
    here = selector().fit(X, y, groups=groups).selection_
    rows = cut(500)[0]
    assert_same_bits(here, selector(client=client).fit(rows, y, groups=groups).selection_)
    cut_groups = da.from_array(groups, chunks=77)
    there = selector(client=client).fit(rows, cut(500)[1], groups=cut_groups)
    assert_same_bits(here, there.selection_)


def test_data_frames_of_unknown_length_are_taken_too(client):
    import pandas as pd

    frame = dd.from_pandas(pd.DataFrame(X), npartitions=5)
    names = dd.from_pandas(pd.Series([f"class {k}" for k in y]), npartitions=3)
    there = selector(client=client).fit(frame[frame[0] > -99], names).selection_
    here = selector().fit(X, [f"class {k}" for k in y]).selection_
    assert_same_bits(here, there)
    assert there.label[0] == f"class {y[0]}"


def test_checked_rows_move_the_cut_as_on_one_machine(client):
    rows = np.arange(0, 1200, 6)
    checked = (rows, np.where(rows % 240 == 0, (y[rows] + 1) % 4, y[rows]))
    here = selector().fit(X, y, checked=checked).selection_
    there = selector(client=client).fit(*cut(), checked=checked).selection_
    assert_same_bits(here, there)
    assert (there.cut_groups.status == "checked").all()


def test_the_current_client_serves_where_none_is_named(client):
    with client.as_current():
        assert len(selector().fit(*cut()).selection_) == 1200


@pytest.mark.parametrize(
    ("rows", "labels", "sentence"),
    [
        (X, y, "client goes with X as a Dask array or a Dask data frame, got ndarray"),
        (da.from_array(X[:1]), y[:1], "X has 1 rows; a selection needs at least two"),
        (da.from_array(X[:, 0]), y, "X must have two dimensions"),
        (da.from_array(X), y[:7], "X has 1200 rows but y has 7 labels"),
        (da.from_array(X), None, "requires y to be passed"),
        (da.from_array(np.where(X > 2, np.nan, X), chunks=(300, -1)), y, "X holds NaN or inf in"),
        (da.from_array(X.astype(str), chunks=(300, -1)), y, "not numbers"),
    ],
    ids=str,
)
def test_what_cannot_be_judged_is_answered_by_a_sentence(client, rows, labels, sentence):
    with pytest.raises(InputError, match=sentence):
        selector(client=client).fit(rows, labels)


def test_a_transformer_of_this_process_is_refused(client):
    from sklearn.decomposition import PCA

    with pytest.raises(InputError, match="does not go with a Dask collection"):
        selector(client=client, reduction=PCA(3).fit(X)).fit(*cut())


def test_without_a_client_a_collection_says_so():
    with pytest.raises(InputError, match="there is no client"):
        selector().fit(*cut())


def test_without_workers_the_work_is_given_up_in_a_sentence(monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", 0.2)
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=None) as empty,
        distributed.Client(empty, set_as_default=False) as alone,
        pytest.raises(InputError, match="All workers of the Dask cluster are lost"),
    ):
        selector(client=alone).fit(*cut())


def test_no_scheduler_at_an_address_is_said_in_a_sentence(monkeypatch, capfd):
    """Also where connections are accepted and nothing is answered, which once hung for good."""
    monkeypatch.setattr(cluster, "_ANSWER_WITHIN", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for port in (9, silent.getsockname()[1]):
            with (
                pytest.raises(InputError, match="No Dask scheduler answers at tcp"),
                opened_client(f"tcp://127.0.0.1:{port}"),
            ):
                pass
    gc.collect()
    assert capfd.readouterr().err == ""


def test_results_come_in_the_order_of_the_calls(client):
    work = [(i, 2) for i in range(20)]
    assert list(results(client, calls(pow, work))) == [i**2 for i in range(20)]
    assert list(results(client, calls(abs, [-3, 2]))) == [3, 2]
    assert is_dask(cut()[0])
    assert not is_dask(X)


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2, 4])
def test_the_number_of_workers_has_no_part_in_the_answer(n_workers):
    here = selector(fit_rows=300).fit(X, y).selection_
    with (
        distributed.LocalCluster(n_workers=n_workers, dashboard_address=None) as workers,
        distributed.Client(workers, set_as_default=False) as many,
    ):
        assert_same_bits(here, selector(client=many, fit_rows=300).fit(*cut()).selection_)


def slow_block(block: np.ndarray) -> np.ndarray:
    time.sleep(0.3)
    return block


def test_a_worker_that_is_killed_changes_nothing():
    here = selector().fit(X, y).selection_
    with opened_client("local") as client:
        array = da.from_array(X, chunks=(100, -1)).map_blocks(slow_block, dtype=X.dtype)
        pids = list(client.run(os.getpid).values())
        killer = threading.Timer(1.5, os.kill, (pids[0], signal.SIGKILL))
        killer.start()
        there = selector(client=client).fit(array, y).selection_
        killer.join()
        assert_same_bits(here, there)
