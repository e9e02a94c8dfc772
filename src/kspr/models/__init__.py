"""Networks by name, their weights, and the device they run on: shared by features and training.

`build` makes a network from its name; `residual`, `inception_resnet_v2` and `libraries` hold the
architectures; `network` and `wrap` define what a network returns; `weights` reads weights, and
`device` chooses where and in which precision to compute.
"""
