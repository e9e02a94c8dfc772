"""The mathematics: NumPy arrays in, NumPy arrays out; no files, no global state.

A leading axis counts pieces: shapes are written ``(pieces, rows, columns)``.
"""
