"""Knockoffs-SPR in a plain PyTorch loop: the lines marked (1) to (4) are all there is to add.

python examples/plain_pytorch.py
"""
# ruff: noqa: T201 - a script prints

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from kspr.noise import symmetric
from kspr.train import CleanSampler, SelectionCallback


def main(epochs: int = 12) -> float:
    """Train on digits with 40 % wrong labels; return the accuracy on right ones."""
    X, truth = load_digits(return_X_y=True)
    X = torch.tensor(X / 16, dtype=torch.float32)
    y = torch.tensor(symmetric(truth, 0.4, seed=0))
    # The selection must know which sample is which: their numbers come first.
    data = TensorDataset(torch.arange(len(y)), X, y)

    torch.manual_seed(0)
    body = nn.Sequential(nn.Linear(64, 128), nn.ReLU())
    head = nn.Linear(128, 10)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1, momentum=0.9)

    # (1) The first selection is by features that have not seen the labels: here the pixels.
    selection = SelectionCallback(y, X, q=0.1)
    loader = DataLoader(data, batch_size=64, sampler=CleanSampler(selection, seed=0))  # (2)
    everything = DataLoader(data, batch_size=512)

    for epoch in range(epochs):
        for _, images, labels in loader:
            loss = nn.functional.cross_entropy(head(body(images)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch >= 2:  # before that, the features know less than the pixels
            with torch.no_grad():
                for index, images, _ in everything:
                    selection.collect(index, body(images))  # (3)
            print(f"epoch {epoch}: {selection.end_epoch()}")  # (4)

    with torch.no_grad():
        return float((head(body(X)).argmax(1).numpy() == truth).mean())


if __name__ == "__main__":
    print(f"accuracy on the right labels: {main():.3f}")
