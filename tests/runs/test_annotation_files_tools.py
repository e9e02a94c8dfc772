"""What is written for other tools, read by these tools themselves; `make test-tools` installs them.

Neither is among the development packages: label-studio-sdk wants an older numpy, and FiftyOne
brings a database and a hundred packages.
"""

import json

import pytest

from kspr.runs.export import export_run
from kspr.runs.verify import verify_run
from kspr.sources.joining import open_label_file
from tests.runs.tables import N
from tests.runs.test_annotation_files import annotated, photos, texts  # noqa: F401 - fixtures


@pytest.mark.parametrize("kind", ["texts", "photos"])
def test_label_studio_takes_config_and_predictions_and_its_export_is_read(kind, request, tmp_path):
    sdk = pytest.importorskip("label_studio_sdk.label_interface")
    converter = pytest.importorskip("label_studio_sdk.converter")
    run = request.getfixturevalue(kind)
    export_run(run.folder, tmp_path / "t.json", "label-studio")
    config, tasks = (tmp_path / "t.xml").read_text(), json.loads((tmp_path / "t.json").read_text())
    interface = sdk.LabelInterface(config)
    interface.validate()
    assert interface.get_control("label").labels == ["cat", "dog", "otter", "-", "?"]
    for task in tasks:
        assert interface.validate_prediction(task["predictions"][0], return_errors=True) == []
    done = [annotated(task, choice) for task, choice in zip(tasks, ["cat", "-", "?"], strict=False)]
    for task in done:
        assert interface.validate_annotation(task["annotations"][0])
    (tmp_path / "done.json").write_text(json.dumps(done))
    out = converter.Converter(config, project_dir=None, download_resources=False)
    out.convert_to_json(str(tmp_path / "done.json"), str(tmp_path / "json"), is_dir=False)
    found = verify_run(run.folder, tmp_path / "json" / "result.json", "chosen")
    assert found.n_other == 3


def test_fiftyone_reads_the_labels_and_what_it_exports_is_read(photos, tmp_path, names):  # noqa: F811
    importers = pytest.importorskip("fiftyone.utils.data.importers")
    exporters = pytest.importorskip("fiftyone.utils.data.exporters")
    export_run(photos.folder, tmp_path / "labels.json", "fiftyone")
    folder = str(tmp_path / "photos")
    importer = importers.FiftyOneImageClassificationDatasetImporter(
        data_path=folder, labels_path=str(tmp_path / "labels.json")
    )
    with importer:
        found = list(importer)
    assert len(found) == N
    label = {int(path.split(".")[-2]): classification for path, _, classification in found}
    assert [label[k].label for k in range(N)] == names.tolist()
    assert [label[k].kspr_clean for k in range(N)] == photos.selection.clean_mask.tolist()
    for how in ({}, {"classes": ["cat", "dog", "otter"]}, {"include_attributes": True}):
        exporter = exporters.FiftyOneImageClassificationDatasetExporter(
            labels_path=str(tmp_path / "back.json"), export_media=False, rel_dir=folder, **how
        )
        with exporter:
            for path, metadata, classification in found:
                exporter.export_sample(path, classification, metadata=metadata)
        back = open_label_file(tmp_path / "back.json")
        order = {name: k for k, name in enumerate(back.ids["uuid"].tolist())}
        again = [back.label[order[f"day {k:02}/photo.{k}"]] for k in range(N)]
        assert again == names.tolist()
