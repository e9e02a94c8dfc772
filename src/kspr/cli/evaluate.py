"""`kspr evaluate`: compare a run with the true labels."""

from math import isnan
from typing import TYPE_CHECKING, Any

from kspr._text import text_table, visible
from kspr.cli import _common as common
from kspr.errors import InputError

if TYPE_CHECKING:
    from kspr.runs.evaluate import Evaluation


def evaluate(
    run: common.Made,
    /,
    *,
    truth: str | None = None,
    source: common.Moved = None,
    json: common.Json = False,
) -> None:
    """Compare a run with the true labels.

    For a training run, the selection by its network is evaluated, and the network's results are
    printed too. RUN/frozen is the selection by features that have not seen the labels.

    Example: kspr evaluate run --truth noisy.csv

    Parameters
    ----------
    truth
        A file of true labels (a column `truth`, or the only one), or the name of a column of the
        source. Left out, the source must have a column of them. Where file and source have ids,
        rows are joined by them; rows without a true label are left out, and counted.
    """
    from kspr.runs.evaluate import evaluate_run
    from kspr.train.run_folder import is_training_run, read_result

    trained = read_result(run) if is_training_run(run) else None
    # A training run keeps its last selection as a run of its own.
    selected = run if trained is None else run / "selection"
    result, why = None, "none; `kspr select` makes one"
    # Trained by a method of others, or on all labels, it has none.
    if trained is None or selected.is_dir():
        try:
            result = evaluate_run(selected, truth, source)
            common.print_notes(result.notes)
        except InputError as error:
            # The network's results need no truth.
            if trained is None or truth is not None:
                raise
            why = f"not compared: {error}"
    if json:
        network = {} if trained is None else {"network": trained}
        # `vars` has the fields alone, without properties.
        found = {} if result is None else {**vars(result), "kept_promise": result.kept_promise}
        common.print_json({**found, **network})
        return
    if trained is not None:
        _print_network(trained)
    if result is None:
        print(why)
    else:
        _print(result)


def _print_network(result: dict[str, Any]) -> None:
    print(f"network: the {result['model_choice']} of epoch {result['epoch']}")
    if result["test_accuracy"] is not None:
        print(f"accuracy on the test set: {result['test_accuracy']:.4f}")
    for name, share in result["held_out"].items():
        print(f"  held-out labels predicted by the {name}: {share:.4f}")
    print("\nits selection:")


def _print(result: "Evaluation") -> None:
    quality = result.quality
    without = f"; {result.n_unknown:,} more without truth" if result.n_unknown else ""
    print(f"{result.n:,} labels, {result.n_wrong:,} wrong; {result.n_kept:,} kept{without}")
    asked = "" if result.q_asked is None else f"   (asked for at most {result.q_asked:g})"
    print(f"FSR     {quality.fsr:.4f}{asked}")
    print(f"recall  {quality.recall:.4f}\nF1      {quality.f1:.4f}")
    if not isnan(result.suggested_right):
        print(f"suggested label right for {result.suggested_right:.1%} of the wrong labels")
    print()
    print(text_table(["class", "n", "wrong", "kept", "FSR", "recall", "F1"], _class_rows(result)))
    confused = result.most_confused()
    if confused:
        print(
            "\nWrong labels whose suggestion is wrong too, most frequent first (true → suggested):"
        )
        for true, suggested, count in confused:
            print(visible(f"  {true} → {suggested}: {count}"))


def _class_rows(result: "Evaluation") -> list[list[str]]:
    return [
        [
            str(row.label),
            *(f"{count:,}" for count in (row.n, row.n_wrong, row.n_kept)),
            *(f"{v:.4f}" for v in (row.quality.fsr, row.quality.recall, row.quality.f1)),
        ]
        for row in result.per_class
    ]
