"""Knockoffs-SPR with Lightning: a callback of ten lines.

pip install lightning
python examples/lightning_trainer.py
"""
# ruff: noqa: T201, ARG002 - a script prints, and a callback takes what it is given

import lightning
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from kspr.noise import symmetric
from kspr.train import CleanSampler, SelectionCallback


class Digits(lightning.LightningModule):
    """A small network that keeps its features."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
        self.head = nn.Linear(128, 10)

    def training_step(self, batch, _):
        """Return the loss of a batch."""
        _, images, labels = batch
        return nn.functional.cross_entropy(self.head(self.body(images)), labels)

    def configure_optimizers(self):
        """Return the optimiser."""
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Select(lightning.Callback):
    """Select at the end of each epoch, by the features of all samples."""

    def __init__(self, selection: SelectionCallback, everything: DataLoader) -> None:
        self.selection, self.everything = selection, everything

    def on_train_epoch_end(self, trainer, module) -> None:
        """Collect and select."""
        with torch.no_grad():
            for index, images, _ in self.everything:
                features = module.body(images.to(module.device))
                self.selection.collect(index, features)
        self.selection.end_epoch()


def main(epochs: int = 12) -> float:
    """Train on digits with 40 % wrong labels; return the accuracy on right ones."""
    X, truth = load_digits(return_X_y=True)
    X = torch.tensor(X / 16, dtype=torch.float32)
    y = torch.tensor(symmetric(truth, 0.4, seed=0))
    data = TensorDataset(torch.arange(len(y)), X, y)
    selection = SelectionCallback(y, X, q=0.1)
    loader = DataLoader(data, batch_size=64, sampler=CleanSampler(selection, seed=0))
    lightning.seed_everything(0)
    module = Digits()
    trainer = lightning.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        # The clean set changes, so Lightning must read its length again.
        reload_dataloaders_every_n_epochs=1,
        callbacks=[Select(selection, DataLoader(data, batch_size=512))],
    )
    trainer.fit(module, loader)
    with torch.no_grad():
        return float((module.head(module.body(X)).argmax(1).numpy() == truth).mean())


if __name__ == "__main__":
    print(f"accuracy on the right labels: {main():.3f}")
