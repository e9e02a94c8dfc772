"""`kspr evaluate`: what a run promised, and what it did."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kspr.cli._output import Json, print_json

if TYPE_CHECKING:
    from kspr.runs.evaluate import Evaluation

__all__ = ["evaluate"]


def evaluate(run: Path, /, *, truth: str | None = None, json: Json = False) -> None:
    """Hold a run against the true labels.

    Of a training run, the last selection is evaluated, and the network's results are repeated.

    Example: kspr evaluate run --truth noisy.csv

    Parameters
    ----------
    run
        A directory that `kspr select` or `kspr train` made.
    truth
        A file with one true label per row of the source (a column `truth`, or the only one), or
        the name of a column of the source. Left out, the source itself must know it.
    """
    from kspr.runs.evaluate import evaluate_run

    trained = _training(run)
    found = evaluate_run(run if trained is None else run / "selection", truth)
    network = {} if trained is None else {"network": trained}
    if json:
        print_json({**vars(found), "kept_promise": found.kept_promise, **network})
        return
    if trained is not None:
        _print_network(trained)
    _print(found)


def _training(run: Path) -> dict[str, Any] | None:
    """Return how a training run ended; None for a run of `kspr select`."""
    from kspr.train.outcome import is_training_run, read_result

    return read_result(run) if is_training_run(run) else None


def _print_network(result: dict[str, Any]) -> None:
    print(f"network: the {result['model_choice']} of epoch {result['epoch']}")
    if result["test_accuracy"] is not None:
        print(f"accuracy on the test set: {result['test_accuracy']:.4f}")
    for name, share in result["held_out"].items():
        print(f"  held-out labels predicted by the {name}: {share:.4f}")
    print("\nits last selection:")


def _print(found: "Evaluation") -> None:
    quality = found.quality
    print(f"{found.n:,} labels, {found.n_wrong:,} wrong; {found.n_kept:,} kept")
    asked = "" if found.q_asked is None else f"   (asked for at most {found.q_asked:g})"
    print(f"FSR     {quality.fsr:.4f}{asked}")
    print(f"recall  {quality.recall:.4f}\nF1      {quality.f1:.4f}")
    print(f"suggested label right for {found.suggested_right:.1%} of the wrong labels\n")
    width = max(5, *(len(str(row.label)) for row in found.per_class))
    print(f"{'class':<{width}}  {'n':>8}  {'wrong':>8}  {'kept':>8}  {'FSR':>6}  recall      F1")
    for row in found.per_class:
        values = row.quality
        print(
            f"{row.label!s:<{width}}  {row.n:>8,}  {row.n_wrong:>8,}  {row.n_kept:>8,}  "
            f"{values.fsr:>6.4f}  {values.recall:>6.4f}  {values.f1:>6.4f}"
        )
    confused = found.most_confused()
    if confused:
        print("\nWrong labels whose suggestion is wrong too, most often (true → suggested):")
        for true, suggested, count in confused:
            print(f"  {true} → {suggested}: {count}")
