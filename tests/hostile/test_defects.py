"""Defects that hostile input once showed, and the tests that keep each from coming back.

A test stands beside the module that it is about; this is the list of them.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

from kspr import SPR, InputError, KnockoffsSPR

TESTS = Path(__file__).resolve().parents[1]
DEFECTS = {
    "a received training run had code imported": [
        "cli/test_predict.py::test_a_run_never_makes_code_be_imported",
        "package/test_security.py::test_only_the_users_own_word_imports_a_module_by_name",
    ],
    "tables of 20,000 columns took minutes": [
        "sources/readers/test_tables.py::test_repeated_column_names_are_found_in_one_pass",
    ],
    "of two processes on one cache of features, one died": [
        "features/test_embedding.py::test_processes_that_embed_the_same_items_share_the_work",
        "test_files.py::test_the_second_waits_for_the_first_and_says_so_once",
    ],
    "bfloat16 ended the process where the processor lacks it": [
        "models/test_device.py::"
        "test_a_test_that_dies_fails_or_hangs_means_float32_and_one_sentence",
        "train/test_fitting_images.py::test_where_bfloat16_dies_training_is_that_of_float32",
    ],
    "damaged run folders: tracebacks, and rows lost without a word": [
        "runs/test_run.py::test_a_damaged_run_is_one_sentence",
        "runs/test_run.py::test_a_document_of_another_shape_is_one_sentence_or_harmless",
        "runs/test_run.py::test_a_table_of_another_shape_is_one_sentence",
        "hostile/test_fuzz.py::test_damage_ends_in_one_sentence_or_in_a_consistent_result",
    ],
    "--resume took other features": [
        "train/test_run_folder.py::test_other_features_are_refused",
        "train/test_source.py::test_a_run_is_not_resumed_with_another_embedder",
        "train/test_task.py::test_a_signature_names_the_content_and_the_number_of_processes",
    ],
    "a full disk, and files that were not on disk before their rename": [
        "train/test_run_folder.py::test_a_full_disk_is_one_sentence_and_leaves_what_was_there",
        "train/test_run_folder.py::test_a_damaged_checkpoint_gives_way_to_the_one_before",
        "features/test_embedding.py::test_features_that_were_cut_are_computed_again",
        "test_files.py::test_what_takes_its_place_is_on_disk_before",
    ],
    "memory without a bound, and pipes that are waited for": [
        "sources/readers/test_items.py::test_an_image_may_have_so_many_pixels_only",
        "sources/readers/test_csv_tables.py::test_a_file_may_unpack_to_so_much_only",
        "sources/readers/test_labels.py::test_one_long_id_takes_no_room_in_every_row",
        "sources/readers/test_file_checks.py::test_pipes_and_devices_are_refused_at_once",
        "sources/readers/test_items.py::test_pipes_and_devices_are_no_images",
    ],
    "small files that unpack to gigabytes, one huge line, and rows without end": [
        "sources/readers/test_csv_tables.py::test_one_huge_line_or_cell_is_named_and_not_held",
        "sources/readers/test_file_checks.py::"
        "test_a_small_file_unpacks_to_a_gigabyte_and_a_large_one_to_what_data_do",
        "sources/readers/test_file_checks.py::test_a_source_may_have_so_many_rows_only",
        "sources/readers/test_labels.py::test_a_file_of_labels_may_have_so_many_lines_only",
        "sources/test_parts.py::test_equal_values_that_unpack_to_gigabytes_are_refused",
        "sources/test_parts.py::test_a_packed_arrow_file_may_unpack_to_so_much_only",
        "features/embedders/test_embedders.py::test_an_image_size_that_no_memory_holds_is_refused",
    ],
    "tracebacks from texts that are none, long cells and doubled columns": [
        "sources/readers/test_labels.py::test_texts_that_are_no_unicode_are_refused",
        "sources/readers/test_csv_tables.py::test_a_long_text_does_not_hide_the_line_that_is_wrong",
        "sources/readers/test_json_tables.py::"
        "test_a_document_that_is_not_utf8_is_named_with_its_line",
        "sources/readers/test_json_tables.py::test_halves_of_characters_are_one_sentence",
        "sources/published/test_cifar.py::test_a_batch_with_other_content_is_refused",
        "sources/test_parts.py::test_parts_that_differ_are_named_with_column_and_types",
    ],
    "an embedder of one's own that ended the command without a word": [
        "features/embedders/test_function.py::"
        "test_a_function_or_a_module_that_ends_the_process_is_told_so",
    ],
    "what ended or killed processes left, and runs that were away for a moment": [
        "cli/test_app.py::test_sigterm_ends_a_command_like_ctrl_c",
        "experiments/reproduce/test_running.py::"
        "test_a_worker_ends_with_its_parent_even_if_that_is_killed",
        "test_files.py::test_a_killed_process_leaves_the_old_folder_which_comes_back",
        "test_files.py::test_a_file_is_replaced_in_one_step",
        "sources/readers/test_file_checks.py::"
        "test_a_copy_has_no_name_that_a_killed_process_could_leave",
        "hostile/test_kill.py::test_a_command_killed_at_any_moment_can_be_run_again",
    ],
    "an array that claims more than it holds was read from the next one": [
        "sources/readers/test_numpy_files.py::"
        "test_a_header_that_claims_more_than_its_member_holds_is_refused",
    ],
    "tracebacks from ordinary slips": [
        "cli/test_app.py::test_a_seed_that_cannot_be_used_is_one_sentence",
        "cli/test_app.py::test_a_config_that_is_no_file_is_one_sentence",
        "train/test_settings.py::test_a_wrong_setting_is_one_sentence",
        "sources/readers/test_labels.py::test_labels_that_are_not_utf8_are_refused",
        "sources/readers/test_labels.py::test_class_names_that_cannot_be_read_are_none",
        "sources/readers/test_labels.py::test_a_label_of_thirty_digits_is_a_text",
        "sources/readers/test_numbers.py::test_numbers_too_large_are_refused_by_name_and_row",
        "hostile/test_defects.py::test_features_of_any_size_give_a_selection_or_one_sentence",
    ],
    "ids and labels that act on a spreadsheet, a terminal or a report": [
        "test_text.py::test_no_cell_begins_like_a_formula_and_every_text_comes_back",
        "test_text.py::test_nothing_visible_acts_on_a_terminal_and_ordinary_text_stays",
        "runs/test_run.py::test_a_forged_source_shows_nothing",
    ],
    "classes that share a folder, and a diverged network called missing data": [
        "runs/test_image_files.py::test_classes_that_would_share_a_folder_are_refused",
        "train/test_cycle.py::test_a_network_that_diverges_is_named_with_what_to_try",
    ],
}
"""What went wrong, and the tests of it."""


@pytest.mark.parametrize("defect", DEFECTS)
def test_every_test_that_is_named_here_exists(defect):
    for named in DEFECTS[defect]:
        file, _, test = named.partition("::")
        tree = ast.parse((TESTS / file).read_text("utf-8"))
        assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("size", [3e38, 1e200, 1e-200])
@pytest.mark.parametrize("selector", [KnockoffsSPR(q=0.1, cut="pooled"), SPR()])
def test_features_of_any_size_give_a_selection_or_one_sentence(blobs, size, selector):
    with np.errstate(over="ignore"):
        X = blobs.X / np.abs(blobs.X).max() * size
    said = ""
    try:
        assert len(selector.fit(X, blobs.y).selection_) == len(blobs.y)
    except InputError as error:
        said = str(error)
    assert "\n" not in said
