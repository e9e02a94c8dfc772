"""Some of a source's items: numbered anew, loaded one at a time."""

import numpy as np

from kspr.sources.readers.items import ImageFiles
from kspr.sources.records import ChosenItems, Records


def test_chosen_items_are_numbered_from_zero(tmp_path, picture):
    names = [f"{k}.png" for k in range(6)]
    for k, name in enumerate(names):
        (tmp_path / name).write_bytes(picture(k * 10))
    chosen = ChosenItems(ImageFiles(tmp_path, names), np.array([1, 4]))
    assert chosen.kind == "image"
    assert len(chosen) == 2
    assert chosen[1].getpixel((0, 0)) == (40, 0, 0)
    assert list(chosen.content()) == [picture(10), picture(40)]


def test_records_are_as_many_as_their_ids(tmp_path):
    assert len(Records(tmp_path, "npy", np.array(["a", "b"]))) == 2
