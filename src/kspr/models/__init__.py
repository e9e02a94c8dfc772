"""Networks by name, their weights, and the device they run on: shared by features and training."""
