"""SimSiam pre-training (Chen and He, 2021): `pretrain` is the entry, `epoch` the loop inside."""
