"""What the tests of comparisons share."""

FEW = ["kspr", "neighbours", "small-loss"]
"""Methods that take seconds, one of which is told the noise rate."""
