"""The mathematics: arrays in, arrays out; no files, no torch import, no global state.

Every function takes NumPy arrays or torch tensors and answers in kind. A leading axis
counts pieces: shapes are written ``(pieces, rows, columns)``.
"""
