"""Alg. 3: a network and a selection that improve each other.

`algorithm3` is the loop over epochs, with `Cycle`; read it first. `epoch` trains for one epoch,
`select_step` makes one selection, `guard` and `model_choice` compare with plain training, `learner`
holds a network in training, `task` the data, and `metrics` what is measured.
"""
