"""Networks by name, their weights, and the device they run on: shared by features and training.

`build` makes a network from its name, and holds those of this package; `network` says what a
network returns, and makes one of any module; `weights` reads weights, and `device` chooses where
and in which precision to compute.
"""
