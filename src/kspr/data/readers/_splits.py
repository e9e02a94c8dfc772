"""Names that people give to the parts of a data set."""

__all__ = ["SPLITS"]

SPLITS = frozenset({"train", "training", "test", "testing", "val", "valid", "validation", "dev"})
