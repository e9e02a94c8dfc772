"""Export of images: names, folders and bytes as they were, and a list that leads back."""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from kspr import KnockoffsSPR
from kspr.errors import InputError
from kspr.runs._item_files import class_folders
from kspr.runs.export import export_run
from kspr.sources.options import ReadOptions
from tests.runs.tables import N


def image(k: int, kind: str = "PNG") -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (2, 2), (k, 0, 0)).save(stream, kind)
    return stream.getvalue()


def write_photos(folder, names, at):
    """Write images to the paths `at`, and their labels to a file; return the options to read."""
    lines = ["path,label"]
    for k, (place, name) in enumerate(zip(at, names, strict=True)):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        kind = {".ppm": "PPM", ".jpg": "JPEG"}.get(path.suffix, "PNG")
        path.write_bytes(image(k, kind))
        lines.append(f"{place},{name}")
    labels = folder.with_suffix(".csv")
    labels.write_text("\n".join(lines))
    return ReadOptions(labels=labels)


def listed(out):
    with (out / "changes.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_images_keep_their_names_and_bytes(tmp_path, run_of, names):
    at = [f"{k:02d}/holiday/photo{k}.{'ppm' if k == 4 else 'png'}" for k in range(N)]
    run = run_of(tmp_path / "photos", write_photos(tmp_path / "photos", names, at))
    out = tmp_path / "clean"
    made = export_run(run.folder, out, "imagefolder", "drop")
    kept = run.selection.clean_indices
    files = [f"{names[k]}/photo{k}{at[k][-4:]}" for k in kept]
    assert sorted(p.relative_to(out).as_posix() for p in out.glob("*/*")) == sorted(files)
    for k, name in zip(kept, files, strict=True):
        assert (out / name).read_bytes() == (tmp_path / "photos" / at[k]).read_bytes()
    assert made.changes == out / "changes.csv"
    found = {row["id"]: row for row in listed(out)}
    assert {place: found[place]["file"] for place in at} == {
        **dict.fromkeys(at, ""),
        **{at[k]: name for k, name in zip(kept, files, strict=True)},
    }


def test_folders_below_a_class_stay(tmp_path, run_of, features, names):
    at = [f"{name}/deep/{k:02d}.png" for k, name in enumerate(names)]
    # The rows of a folder are sorted by path.
    order = np.argsort(at)
    write_photos(tmp_path / "photos", names, at)
    made = KnockoffsSPR(q=0.1, cut="pooled").fit(features[order], names[order]).selection_
    run = run_of(tmp_path / "photos", made=made)
    export_run(run.folder, tmp_path / "clean", "imagefolder", "keep")
    found = (p.relative_to(tmp_path / "clean").as_posix() for p in tmp_path.glob("clean/*/*/*"))
    assert sorted(found) == sorted(at)


def test_images_of_one_name_are_told_apart_by_their_row(tmp_path, run_of, names):
    at = [f"{k:02d}/{'A' if k % 2 else 'a'}.png" for k in range(N)]
    run = run_of(tmp_path / "photos", write_photos(tmp_path / "photos", names, at))
    out = tmp_path / "clean"
    export_run(run.folder, out, "imagefolder", "keep")
    files = [row["file"] for row in listed(out)]
    assert len({name.casefold() for name in files}) == N
    for k, name in enumerate(files):
        assert name.startswith(f"{names[k]}/")
        assert (out / name).read_bytes() == image(k)


def test_images_without_a_file_become_png(tmp_path, run_of, names):
    """Cells hold images of several kinds; nothing but the bytes says which."""
    kinds = ["PNG", "JPEG", "PPM", "TIFF", "ICO"]
    cells = [image(k, kinds[k % 5]) for k in range(N)]
    pq.write_table(pa.table({"image": cells, "label": names}), tmp_path / "x.parquet")
    run = run_of(tmp_path / "x.parquet")
    export_run(run.folder, tmp_path / "clean", "imagefolder", "keep")
    suffixes = [".png", ".jpg", ".ppm", ".tif", ".png"]
    for k, row in enumerate(listed(tmp_path / "clean")):
        assert row["file"] == f"{names[k]}/{k:08d}{suffixes[k % 5]}"
        content = (tmp_path / "clean" / row["file"]).read_bytes()
        assert content == cells[k] or kinds[k % 5] == "ICO"
        with Image.open(io.BytesIO(content)) as found:
            assert found.convert("RGB").size[0] > 0


def test_an_image_that_is_gone_or_changed_is_left_out_and_named(tmp_path, run_of, names):
    at = [f"{k:02d}/x.png" for k in range(N)]
    options = write_photos(tmp_path / "photos", names, at)
    run = run_of(tmp_path / "photos", options)
    gone, changed = run.selection.clean_indices[[2, 5]].tolist()
    (tmp_path / "photos" / at[gone]).unlink()
    (tmp_path / "photos" / at[changed]).write_bytes(image(250))
    made = export_run(run.folder, tmp_path / "clean", "imagefolder", "drop")
    source = tmp_path / "photos"
    assert made.notes == (
        f"1 row of the run is gone from {source}: {at[gone]!r}.",
        f"Changed in {source} since the run was made: {at[changed]!r}.",
    )
    assert made.rows == run.selection.clean_mask.sum() - 2
    for row in listed(tmp_path / "clean"):
        k = int(row["row"])
        assert bool(row["file"]) == (run.selection.clean_mask[k] and k not in (gone, changed))
        if row["file"]:
            assert (tmp_path / "clean" / row["file"]).read_bytes() == image(k)


def test_a_name_cannot_lead_out_of_the_folder(tmp_path, run_of, names):
    (tmp_path / "lists").mkdir()
    lines = ["path,label"]
    for k, name in enumerate(names):
        (tmp_path / f"{k}.png").write_bytes(image(k))
        lines.append(f"../{k}.png,{name}")
    (tmp_path / "lists" / "x.csv").write_text("\n".join(lines))
    run = run_of(tmp_path / "lists" / "x.csv")
    export_run(run.folder, tmp_path / "clean", "imagefolder", "keep")
    assert {row["file"] for row in listed(tmp_path / "clean")} == {
        f"{name}/{k}.png" for k, name in enumerate(names)
    }


def test_classes_that_would_share_a_folder_are_refused():
    with pytest.raises(InputError, match=r"'a/b' and 'a_b' would share the folder 'a_b'"):
        class_folders(np.array(["a/b", "a_b", "c"]))
    assert class_folders(np.array(["a/b", "c"])) == {"a/b": "a_b", "c": "c"}
    assert class_folders(np.array(["..", "c."])) == {"..": "_", "c.": "c"}
