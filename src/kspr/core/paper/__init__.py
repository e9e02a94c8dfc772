"""The paper's form of the method: pieces, selection times, one knockoff a label, Eq. T.

The training cycle and the recipes use it; the default form does not, and imports nothing of it.
"""
