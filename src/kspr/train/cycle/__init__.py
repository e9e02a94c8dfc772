"""Alg. 3: a network and a selection that improve each other.

`algorithm3` is the loop over epochs, with `Cycle`; read it first. `epoch` trains for one epoch,
`select_step` makes one selection, `guard` and `model_choice` compare with plain training, `learner`
holds a network in training, `task` the data, and `metrics` what is measured.

`referees` has labels judged by networks that have not seen them, trained by `referee_parts`; from
their answers `soft_labels` are computed, which `soft_epoch` trains on.
"""
