"""What `kspr train` prints after each epoch."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kspr.train.metrics import Epoch

__all__ = ["EpochLines", "epoch_line", "time_left"]


class EpochLines:
    """Print a line for every epoch: what people watch, and how long the rest will take."""

    def __init__(self, n_epochs: int) -> None:
        self._n_epochs = n_epochs
        self._seconds: list[float] = []

    def __call__(self, epoch: "Epoch") -> None:
        """Print the line of an epoch that has just ended, and the messages of the guard."""
        self._seconds.append(epoch.seconds)
        # Of the epochs of this process: a resumed run may go on on another machine.
        mean = sum(self._seconds) / len(self._seconds)
        print(epoch_line(epoch, mean * (self._n_epochs - epoch.epoch)))
        for note in epoch.notes:
            print(f"           {note}")


def epoch_line(epoch: "Epoch", seconds_left: float) -> str:
    """Return the metrics of an epoch in one line: accuracy first, time last."""
    measured = {
        "accuracy": epoch.accuracy,
        "averaged": epoch.accuracy_average,
        "held-out labels": epoch.held_out,
        "kept": epoch.kept,
        "FSR (estimated)": epoch.q_reached,
    }
    if epoch.quality is not None:
        quality = vars(epoch.quality)
        measured |= {"FSR": quality["fsr"], "recall": quality["recall"]}
    parts = [f"{name} {value:.1%}" for name, value in measured.items() if value is not None]
    took = f"{epoch.seconds:.1f} s ({epoch.select_share:.0%} selecting)"
    return "  ".join(
        [f"epoch {epoch.epoch:>3}", *parts, f"loss {epoch.loss:.3f}", took, time_left(seconds_left)]
    )


def time_left(seconds: float) -> str:
    """Return how long the rest takes, in words.

    >>> time_left(95), time_left(3 * 3600 + 120), time_left(0)
    ('2 min left', '3 h 2 min left', 'done')
    """
    if seconds <= 0:
        return "done"
    if seconds < 60:
        return f"{max(round(seconds), 1)} s left"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min left" if hours else f"{minutes} min left"
