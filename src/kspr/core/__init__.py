"""The mathematics: arrays in, arrays out; no files, no torch import, no global state.

Functions take NumPy arrays or torch tensors and return the same kind. A leading axis
counts pieces: shapes are written ``(pieces, rows, columns)``.
"""
