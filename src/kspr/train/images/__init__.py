"""Augmentation of images, a batch at a time."""
