"""What `embed` promises, whatever embeds."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kspr.errors import InputError, UnreadableItemError
from kspr.features.embedders import Embedder
from kspr.features.embedders.embedder import PendingBatch
from kspr.features.embedding import embed_shards
from kspr.sources.records import ImageFiles
from tests.features.fakes import Texts, embed, pictures, texts

ROOT = Path(__file__).resolve().parents[2]


def numbers(embedded) -> list[int]:
    """Return which text each row of features belongs to."""
    return embedded.features[:, 2].astype(int).tolist()


def test_every_row_gets_its_own_features(own, tmp_path):
    result = embed(texts(25), own().name, tmp_path / "out", batch_size=4, shard_rows=10)
    assert numbers(result) == list(range(25))
    assert result.kept.tolist() == list(range(25))
    assert result.unreadable == {}
    assert isinstance(result.features, np.memmap)
    assert result.features.dtype == np.float32
    assert not result.from_cache


@pytest.mark.parametrize("batch_size", [1, 7, 64])
@pytest.mark.parametrize("shard_rows", [1, 5, 100])
def test_neither_batches_nor_shards_change_the_features(own, tmp_path, batch_size, shard_rows):
    items = pictures(12, broken=(3,))
    mean = own("np.array([np.asarray(i).mean((0, 1)) for i in batch])").name
    result = embed(items, mean, tmp_path / "out", batch_size=batch_size, shard_rows=shard_rows)
    expected = [p.mean((0, 1)) for i, p in enumerate(items.pixels) if i != 3]
    np.testing.assert_allclose(result.features, expected, rtol=1e-6)


def test_the_folder_says_what_is_in_it(own, tmp_path):
    embed(texts(9, broken=(2,)), own().name, tmp_path / "out", shard_rows=4)
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["embedding.json", "features.npy", "manifest.json"]
    about = json.loads((tmp_path / "out" / "embedding.json").read_text())
    assert (about["rows"], about["kept"], about["dimensions"]) == (9, 8, 3)
    assert about["unreadable"] == {"2": "text 2 is in no encoding"}
    assert about["versions"]["numpy"] == np.__version__


def test_a_second_call_computes_nothing(own, tmp_path):
    embedder = own()
    first = embed(texts(9, broken=(2,)), embedder.name, tmp_path / "out", shard_rows=4)
    # Neither the batch nor the shard size decides the features.
    again = embed(texts(9, broken=(2,)), embedder.name, tmp_path / "out", batch_size=3)
    assert again.from_cache
    assert len(embedder.seen()) == 8
    np.testing.assert_array_equal(again.digest, first.digest)
    arrays = dict.fromkeys(("features", "kept", "digest"))
    assert replace(again, **arrays) == replace(first, **arrays, from_cache=True)
    np.testing.assert_array_equal(first.features, again.features)
    np.testing.assert_array_equal(first.kept, again.kept)


def test_unreadable_items_are_listed_and_left_out(own, tmp_path):
    result = embed(texts(8, broken=(0, 5)), own().name, tmp_path / "out", shard_rows=3)
    assert result.unreadable == {0: "text 0 is in no encoding", 5: "text 5 is in no encoding"}
    assert result.kept.tolist() == numbers(result) == [1, 2, 3, 4, 6, 7]


def test_a_shard_in_which_nothing_can_be_read_is_no_obstacle(own, tmp_path):
    result = embed(texts(9, broken=(0, 1, 2)), own().name, tmp_path / "out", shard_rows=3)
    assert numbers(result) == [3, 4, 5, 6, 7, 8]


def test_nothing_readable_is_an_error_that_leaves_nothing(own, tmp_path):
    with pytest.raises(UnreadableItemError, match="None of the 2 items can be read; the first: te"):
        embed(texts(2, broken=(0, 1)), own().name, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("items", [texts(8, broken=(4, 6)), pictures(8, broken=(4, 6))])
def test_strict_names_the_first_and_the_count_before_the_model_runs(own, tmp_path, items):
    embedder = own()
    with pytest.raises(
        UnreadableItemError, match="2 of 8 items cannot be read, the first in row 4"
    ):
        embed(items, embedder.name, tmp_path / "out", strict=True)
    assert embedder.seen() == []
    assert not (tmp_path / "out").exists()


def test_strict_holds_for_a_finished_folder_too(own, tmp_path):
    embedder = own()
    embed(texts(4, broken=(1,)), embedder.name, tmp_path / "out")
    with pytest.raises(UnreadableItemError, match="1 of 4"):
        embed(texts(4, broken=(1,)), embedder.name, tmp_path / "out", strict=True)


CHILD = """
import sys
sys.path[:0] = [{tests!r}, {here!r}]
from tests.features.fakes import embed, texts
embed(texts(40), {name!r}, {out!r}, batch_size=2, shard_rows=6)
"""


def run_child(embedder, tmp_path) -> int:
    code = CHILD.format(
        tests=str(Path(__file__).parents[2]),
        here=str(tmp_path),
        name=embedder.name,
        out=str(tmp_path / "out"),
    )
    return subprocess.run([sys.executable, "-c", code], cwd=tmp_path).returncode


@pytest.mark.parametrize("row", [0, 12, 23, 39])
def test_a_killed_run_goes_on_where_it_was(own, tmp_path, row):
    """The process kills itself as it embeds `row`, the first time it sees it."""
    embedder = own(
        before=f"if 't{row}' in batch and not os.path.exists('once'): "
        "open('once', 'w').close(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run_child(embedder, tmp_path) == -signal.SIGKILL
    before = embedder.seen()
    result = embed(texts(40), embedder.name, tmp_path / "out", batch_size=2, shard_rows=6)
    assert numbers(result) == list(range(40))
    finished = {f"t{i}" for i in range(row // 6 * 6)}
    assert finished <= set(before)
    assert finished.isdisjoint(embedder.seen()[len(before) :])


def test_killed_while_a_shard_is_written_leaves_no_shard(own, tmp_path, monkeypatch):
    embedder = own()

    def die(*args, **kwargs):
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", die)
        with pytest.raises(KeyboardInterrupt):
            embed(texts(9), embedder.name, out, shard_rows=4)
    assert list(out.rglob("*.npz")) == []
    (out / "shards").mkdir(exist_ok=True)
    (out / "shards" / ".000000.abc.npz").write_bytes(b"half a shard")
    assert numbers(embed(texts(9), embedder.name, out, shard_rows=4)) == list(range(9))
    assert not (out / "shards").exists()


def test_killed_while_shards_are_joined_embeds_nothing_again(own, tmp_path, monkeypatch):
    embedder = own()

    def die(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        # The last step: the features are in place, and nothing says so yet.
        patch.setattr("kspr.features.embedding.write_json", die)
        with pytest.raises(KeyboardInterrupt):
            embed(texts(9), embedder.name, tmp_path / "out", shard_rows=4)
    assert numbers(embed(texts(9), embedder.name, tmp_path / "out")) == list(range(9))
    assert len(embedder.seen()) == 9


def test_ctrl_c_leaves_finished_shards(own, tmp_path):
    embedder = own(
        before="if 't5' in batch and not os.path.exists('once'): "
        "open('once', 'w').close(); raise KeyboardInterrupt"
    )
    with pytest.raises(KeyboardInterrupt):
        embed(texts(9), embedder.name, tmp_path / "out", batch_size=2, shard_rows=4)
    assert [p.name for p in (tmp_path / "out" / "shards").iterdir()] == ["000000.npz"]
    result = embed(texts(9), embedder.name, tmp_path / "out", batch_size=2, shard_rows=4)
    assert numbers(result) == list(range(9))
    assert sorted(embedder.seen()) == [f"t{i}" for i in range(9)]


def interrupted(own, tmp_path):
    """Return an embedder that stopped after the first of three shards."""
    embedder = own(
        before="if 't5' in batch and not os.path.exists('once'): "
        "open('once', 'w').close(); raise KeyboardInterrupt"
    )
    with pytest.raises(KeyboardInterrupt):
        embed(texts(12), embedder.name, tmp_path / "out", shard_rows=4)
    return embedder


def test_a_resumed_run_keeps_the_shard_size_it_began_with(own, tmp_path):
    embedder = interrupted(own, tmp_path)
    assert numbers(embed(texts(12), embedder.name, tmp_path / "out", shard_rows=5)) == list(
        range(12)
    )
    assert len(embedder.seen()) == 12


def test_a_damaged_shard_is_computed_again(own, tmp_path):
    embedder = interrupted(own, tmp_path)
    (tmp_path / "out" / "shards" / "000000.npz").write_bytes(b"")
    assert numbers(embed(texts(12), embedder.name, tmp_path / "out")) == list(range(12))


def test_a_lost_result_is_computed_again(own, tmp_path):
    embedder = own()
    embed(texts(5), embedder.name, tmp_path / "out")
    (tmp_path / "out" / "features.npy").unlink()
    assert numbers(embed(texts(5), embedder.name, tmp_path / "out")) == list(range(5))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"half": True}, "precision float32 there, float16 here"),
        ({"items": Texts(["t0", "t1", "t3"])}, "of other items"),
        ({"items": texts(4)}, "rows 3 there, 4 here"),
        ({"image_size": 9}, "image_size None there, 9 here"),
    ],
)
def test_a_folder_of_another_embedding_is_refused_unless_overwritten(own, tmp_path, change, word):
    embedder = own()
    first = {"items": texts(3), "name": embedder.name, "folder": tmp_path / "out"}
    embed(**first)
    with pytest.raises(InputError, match=word):
        embed(**first | change)
    assert embed(**first).from_cache
    result = embed(**first | change, overwrite=True)
    assert not result.from_cache
    assert len(result.features) == len((first | change)["items"])


def test_an_edited_function_is_another_embedding(own, tmp_path):
    embedder = own()
    embed(texts(3), embedder.name, tmp_path / "out")
    file = tmp_path / f"{embedder.name.partition(':')[0]}.py"
    file.write_text(file.read_text() + "# changed\n")
    with pytest.raises(InputError, match="with other weights or code"):
        embed(texts(3), embedder.name, tmp_path / "out")


def test_an_embedding_that_never_finished_a_shard_does_not_hold_its_folder(own, tmp_path):
    with pytest.raises(InputError):
        embed(texts(3), own("[1]").name, tmp_path / "out")
    assert numbers(embed(texts(3), own().name, tmp_path / "out")) == [0, 1, 2]


def test_files_of_others_are_left_alone(own, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="no embedding; they are left alone"):
        embed(texts(3), own().name, tmp_path / "out", overwrite=True)
    with pytest.raises(InputError, match="is a file; the features need a folder"):
        embed(texts(3), own().name, tmp_path / "out" / "thesis.txt")


def test_overwriting_keeps_what_others_put_beside_the_embedding(own, tmp_path):
    embedder = own()
    embed(texts(3), embedder.name, tmp_path / "out")
    (tmp_path / "out" / "rows.parquet").write_text("labels")
    embed(texts(4), embedder.name, tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "rows.parquet").exists()


def test_half_precision_is_stored_as_float16(own, tmp_path):
    result = embed(texts(3), own().name, tmp_path / "out", half=True)
    assert result.features.dtype == np.float16


def test_half_precision_says_when_a_number_does_not_fit(own, tmp_path):
    with pytest.raises(InputError, match="gave 1e\\+06, which float16 cannot hold"):
        embed(texts(3), own("np.full((len(batch), 2), 1e6)").name, tmp_path / "out", half=True)


def test_widths_that_change_between_runs_are_refused(own, tmp_path):
    embedder = interrupted(own, tmp_path)
    shard = tmp_path / "out" / "shards" / "000000.npz"
    nothing = {"unreadable": np.array([], int), "reasons": np.array([], str), "engine": ""}
    np.savez(shard, rows=np.arange(4), features=np.ones((4, 7)), **nothing)
    with pytest.raises(InputError, match=r"rows of \[3, 7\] features"):
        embed(texts(12), embedder.name, tmp_path / "out")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"shard_rows": -1}, "shard_rows must be at least 1, got -1"),
        ({"items": texts(0)}, "There are no items to embed"),
        ({"name": "nonsense"}, "There is no embedder 'nonsense'. Choose from"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_read(own, tmp_path, settings, message):
    arguments = {"items": texts(3), "name": own().name, "folder": tmp_path / "out"}
    with pytest.raises(InputError, match=message):
        embed(**arguments | settings)
    assert not (tmp_path / "out").exists()


def test_nothing_is_printed_unless_asked_for(own, tmp_path, capfd):
    embed(texts(3), own().name, tmp_path / "out")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", "half"])
def test_features_that_were_cut_are_computed_again(own, tmp_path, content):
    embedder = own()
    file = embed(texts(9), embedder.name, tmp_path / "out").folder / "features.npy"
    file.write_bytes(file.read_bytes()[:-20] if content == "half" else content)
    again = embed(texts(9), embedder.name, tmp_path / "out")
    assert numbers(again) == list(range(9))
    assert not again.from_cache
    assert embed(texts(9), embedder.name, tmp_path / "out").from_cache


TOGETHER = """
import sys
from pathlib import Path
from tests.features.fakes import embed, texts
found = embed(texts(40), sys.argv[1], Path("out"), batch_size=4, shard_rows=8)
assert found.features[:, 2].astype(int).tolist() == list(range(40))
"""


def test_processes_that_embed_the_same_items_share_the_work(own, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    embedder = own(before="import time; time.sleep(0.02)")
    command = [sys.executable, "-c", TOGETHER, embedder.name]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    errors = [process.communicate()[1] for process in started]
    assert [process.returncode for process in started] == [0, 0, 0], errors
    assert sorted(embedder.seen()) == sorted(f"t{i}" for i in range(40))
    assert not (tmp_path / ".out.lock").exists()


def test_images_that_were_too_large_are_read_when_they_may_be(own, tmp_path, monkeypatch):
    monkeypatch.setenv("KSPR_MAX_MEGAPIXELS", "0.0005")
    for name, side in (("a", 20), ("b", 40)):
        Image.new("RGB", (side, side)).save(tmp_path / f"{name}.png")
    items = ImageFiles(tmp_path, ["a.png", "b.png"])
    sides = own("np.array([[i.size[0]] for i in batch])").name
    assert (
        "b.png has more than 0.0005 million pixels."
        in (embed(items, sides, tmp_path / "out").unreadable[1])
    )
    assert embed(items, sides, tmp_path / "out").from_cache
    monkeypatch.delenv("KSPR_MAX_MEGAPIXELS")
    assert embed(items, sides, tmp_path / "out").features.tolist() == [[20], [40]]


def test_texts_of_like_length_share_a_batch(tmp_path, own):
    """A batch is padded to its longest text; the features stay in the order of the items."""
    texts = [f"{'t' * (1 + 7 * (i % 2))}{i}" for i in range(12)]
    embedder = own("np.array([[float(t.strip('t'))] for t in batch])", before=LOGGED)
    result = embed(Texts(texts), embedder.name, tmp_path / "out", batch_size=6)
    assert result.features[:, 0].tolist() == list(range(12))
    assert (tmp_path / "longest.txt").read_text().splitlines() == ["3", "10"]


LOGGED = "open('longest.txt', 'a').write(f'{max(map(len, batch))}\\n')"


def test_an_embedding_finished_from_shards_alone_is_the_same(own, tmp_path, monkeypatch):
    """Killed between the last shard and the end: the embedder has nothing to do any more."""
    embedder = own()
    embed(texts(3), embedder.name, tmp_path / "whole")
    with monkeypatch.context() as patch:
        patch.setattr("kspr.features.embedding.join", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            embed(texts(3), embedder.name, tmp_path / "out")
    embed(texts(3), embedder.name, tmp_path / "out")
    for name in ("embedding.json", "features.npy"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_shards_that_a_killed_process_left_beside_its_features_are_removed(own, tmp_path):
    embedder, out = own(), tmp_path / "out"
    embed(texts(3), embedder.name, out)
    (out / "shards").mkdir()
    (out / "shards" / "000000.npz").write_bytes(b"left")
    assert embed(texts(3), embedder.name, out).from_cache
    assert not (out / "shards").exists()


class Slow:
    """An embedder that writes down what is begun, waited for and cancelled; `fails` at one text."""

    def __init__(self, ahead, fails=None):
        self.events, self._fails = [], fails
        self.embedder = Embedder("slow", "text", self.start, ahead=ahead)

    def start(self, batch):
        self.events.append(("begin", *batch))

        def wait():
            self.events.append(("wait", *batch))
            if self._fails in batch:
                raise KeyboardInterrupt
            return np.array([[float(t[1:])] for t in batch])

        return PendingBatch(wait, lambda: self.events.append(("cancel", *batch)))

    def shards(self, n):
        return embed_shards(texts(n), self.embedder, "float32", batch_size=1, shard_rows=2)


@pytest.mark.parametrize("ahead", [1, 2, 3, 99])
def test_so_many_batches_are_begun_as_the_embedder_takes_and_no_more(ahead):
    slow = Slow(ahead)
    found = list(slow.shards(7))
    assert np.concatenate([shard.features for shard in found])[:, 0].tolist() == list(range(7))
    for row in range(7):
        # Also at the end of a shard: the next one has begun by then.
        before = slow.events[: slow.events.index(("wait", f"t{row}"))]
        assert sum(event == "begin" for event, _ in before) == min(7, row + ahead)


def test_batches_of_the_next_shard_are_begun_while_one_is_written():
    slow = Slow(ahead=3)
    next(iter(slow.shards(7)))
    begun = [text for event, text in slow.events if event == "begin"]
    assert begun == ["t0", "t1", "t2", "t3"]


def test_after_ctrl_c_what_was_begun_is_cancelled():
    slow = Slow(ahead=3, fails="t3")
    with pytest.raises(KeyboardInterrupt):
        list(slow.shards(7))
    assert slow.events[-3:] == [("cancel", "t3"), ("cancel", "t4"), ("cancel", "t5")]
