"""SimSiam pre-training (Chen and He, 2021)."""
