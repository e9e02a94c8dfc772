"""Datasets, noise models, readers and writers."""
