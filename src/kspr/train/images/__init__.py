"""Augmentation of images: `transforms` are the single steps, `augment` puts them together."""
