"""The cluster itself: order, retries, and what is said when nobody is there."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from kspr.errors import InputError
from kspr.selectors.engines import cluster as engine
from kspr.selectors.engines.cluster import (
    Cluster,
    Recipe,
    is_dask,
    kept_memory,
    on_worker,
    one_blas_thread,
)

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def cluster():
    """Two workers that are threads of this process: quick to start."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        ) as workers,
        distributed.Client(workers, set_as_default=False) as client,
    ):
        yield Cluster(client, patience=0.2)


def test_results_come_in_the_order_of_the_blocks(cluster):
    futures = cluster.each(lambda a, b, shared: a * b + shared, [(i, 2) for i in range(20)], 5)
    assert cluster.results(futures) == [2 * i + 5 for i in range(20)]
    pairs = cluster.each(lambda a: (a, -a), [(i,) for i in range(5)], n_results=2)
    assert cluster.results([second for _, second in pairs]) == [0, -1, -2, -3, -4]


def test_states_are_merged_in_their_order_whatever_their_number(cluster):
    for n in (1, 2, 8, 9, 30):
        states = cluster.each(lambda i: [i], [(i,) for i in range(n)])
        merged = cluster.merged(lambda *parts: [i for part in parts for i in part], states)
        assert cluster.result(merged) == list(range(n))


def test_what_is_kept_is_there_for_all_blocks(cluster):
    kept = cluster.keep(np.arange(3))
    sums = cluster.each(lambda i, values: int(values.sum()) + i, [(i,) for i in range(4)], kept)
    assert cluster.results(sums) == [3, 4, 5, 6]


def test_recipes_are_followed_by_the_task_that_needs_them(cluster):
    def doubled(values: np.ndarray) -> np.ndarray:
        return 2 * values

    lazy = [cluster.lazily(doubled, cluster.lazily(np.arange, i)) for i in range(3)]
    recipes = cluster.inlined(lazy)
    assert all(isinstance(recipe, Recipe) for recipe in recipes)
    totals = cluster.each(on_worker(np.sum), [(recipe,) for recipe in recipes])
    assert cluster.results(totals) == [0, 0, 2]


def test_values_with_data_or_of_other_tasks_are_no_recipes(cluster):
    large = [cluster.lazily(np.sum, np.zeros(20_000))]
    assert cluster.inlined(large)[0] is large[0]
    other = [cluster.lazily(np.sum, cluster.keep(np.zeros(3)))]
    assert cluster.inlined(other)[0] is other[0]
    assert cluster.inlined([]) == []


def test_work_that_values_have_in_common_is_done_once(cluster):
    import dask.array as da

    array = da.random.default_rng(0).random((40, 3), chunks=(10, -1))
    alone = [cluster.lazily(np.sum, block) for block in array.to_delayed().ravel()]
    assert all(isinstance(value, Recipe) for value in cluster.inlined(alone))
    centred = array - array.mean(axis=0)
    together = [cluster.lazily(np.sum, block) for block in centred.to_delayed().ravel()]
    assert not any(isinstance(value, Recipe) for value in cluster.inlined(together))


@pytest.mark.parametrize(("n_bytes", "times"), [(1.0, 1), (1e18, 3)])
def test_values_are_made_once_if_workers_have_room_for_them(cluster, tmp_path, n_bytes, times):
    def made(number: int) -> int:
        with (tmp_path / str(number)).open("a") as file:
            file.write("x")
        return number

    values = cluster.held([cluster.lazily(made, i) for i in range(3)], n_bytes)
    for _ in range(3):
        assert cluster.results(cluster.each(abs, [(value,) for value in values])) == [0, 1, 2]
    assert [len((tmp_path / str(i)).read_text()) for i in range(3)] == [times] * 3


def test_work_of_different_places_goes_to_different_workers(cluster):
    def at() -> str:
        return distributed.get_worker().address

    first, second, third = cluster.results([cluster.once(at, place=i) for i in range(3)])
    assert first != second
    assert first == third


def test_an_error_of_a_block_is_raised_here(cluster):
    def refuse(_: int) -> None:
        raise InputError("Partition 3 is no good.")

    with pytest.raises(InputError, match="Partition 3 is no good"):
        cluster.result(cluster.each(refuse, [(1,)])[0])


def test_without_workers_the_work_is_given_up_in_a_sentence():
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        distributed.Client(empty, set_as_default=False) as client,
    ):
        alone = Cluster(client, patience=0.2)
        waiting = alone.once(len, "abc")
        with pytest.raises(InputError, match="All workers of the Dask cluster are lost"):
            alone.result(waiting)


def test_a_scheduler_that_does_not_answer_is_named(monkeypatch):
    monkeypatch.setattr("kspr.selectors.engines.cluster._ANSWER_WITHIN", 0.5)
    with (
        pytest.raises(InputError, match="No Dask scheduler answers at tcp://127"),
        Cluster.at("tcp://127.0.0.1:9"),
    ):
        pass
    with pytest.raises(InputError, match="answers at nowhere://x"), Cluster.at("nowhere://x"):
        pass


def test_without_a_client_a_sentence_says_how_to_make_one():
    with pytest.raises(InputError, match="needs a client, and there is none"):
        Cluster.current()


def test_dask_is_recognised_by_its_name():
    import dask.array as da

    assert is_dask(da.ones(3))
    assert not is_dask(np.ones(3))
    assert not is_dask(None)


def test_a_task_has_one_thread_of_linear_algebra_and_gives_the_others_back():
    def threads() -> int:
        return max(lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        with one_blas_thread():
            assert threads() == 1
        assert threads() == 2


class Library:
    """Writes down what the C library is asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

    def mallopt(self, option: int, value: int) -> None:
        self.calls.append((option, value))

    def malloc_trim(self, pad: int) -> None:
        self.calls.append((pad,))


@pytest.mark.parametrize(("variable", "n_calls"), [("65536", 5), (None, 0), ("many", 0)])
def test_a_task_keeps_freed_memory_only_where_dask_gives_it_back_at_once(
    monkeypatch, variable, n_calls
):
    library = Library()
    monkeypatch.setattr(engine, "_c_library", lambda: library)
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    if variable is not None:
        monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", variable)
    with kept_memory():
        assert len(library.calls) == min(n_calls, 2)
    assert len(library.calls) == n_calls
    # As it was before, and then what is free goes back.
    assert library.calls[2:] == [(-1, 65536), (-3, 128 << 10), (0,)][:n_calls]
