"""Knockoffs-SPR with the Hugging Face Trainer: a callback, and a sampler of clean samples.

pip install transformers accelerate
python examples/huggingface_trainer.py
"""
# ruff: noqa: T201, ARG002 - a script prints, and a callback takes what it is given

import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from kspr.noise import symmetric
from kspr.train import CleanSampler, SelectionCallback


class Digits(Dataset):
    """Samples as the Trainer wants them."""

    def __init__(self, X: torch.Tensor, y: torch.Tensor) -> None:
        self.X, self.y = X, y

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"x": self.X[row], "labels": self.y[row]}


class Network(nn.Module):
    """A small network that keeps its features."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def forward(self, x, labels=None):
        """Return loss and logits, as the Trainer wants them."""
        logits = self.head(self.body(x))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return {"loss": loss, "logits": logits}


class CleanTrainer(Trainer):
    """A Trainer that draws clean samples only."""

    selection: SelectionCallback

    def _get_train_sampler(self, *_):
        return CleanSampler(self.selection, seed=0)


class Select(TrainerCallback):
    """Select at the end of each epoch, by the features of all samples."""

    def __init__(self, selection: SelectionCallback, X: torch.Tensor) -> None:
        self.selection, self.X = selection, X

    def on_epoch_end(self, args, state, control, model=None, **_):
        """Collect and select."""
        with torch.no_grad():
            features = model.body(self.X.to(next(model.parameters()).device))
            self.selection.collect(torch.arange(len(self.X)), features)
        self.selection.end_epoch()


def main(epochs: int = 12) -> float:
    """Train on digits with 40 % wrong labels; return the accuracy on right ones."""
    X, truth = load_digits(return_X_y=True)
    X = torch.tensor(X / 16, dtype=torch.float32)
    y = torch.tensor(symmetric(truth, 0.4, seed=0))
    selection = SelectionCallback(y, X, q=0.1)
    network = Network()
    accuracy = 0.0
    with tempfile.TemporaryDirectory() as folder:
        # One epoch per call: the Trainer reads the length of its sampler only at the beginning.
        for epoch in range(epochs):
            arguments = TrainingArguments(
                folder,
                num_train_epochs=1,
                per_device_train_batch_size=64,
                learning_rate=0.01,
                lr_scheduler_type="constant",
                save_strategy="no",
                report_to=[],
                seed=epoch,
                use_cpu=True,
                disable_tqdm=True,
            )
            trainer = CleanTrainer(
                network, arguments, train_dataset=Digits(X, y), callbacks=[Select(selection, X)]
            )
            trainer.selection = selection
            trainer.train()
    with torch.no_grad():
        accuracy = float((network(X)["logits"].argmax(1).numpy() == truth).mean())
    return accuracy


if __name__ == "__main__":
    print(f"accuracy on the right labels: {main():.3f}")
