"""How the error rate is estimated: one control a file, each with its own assumption.

A control is a function from a `Question` to a `Decision`, a line in `registry.CONTROLS` and one in
`ASSUMPTIONS`. `checked` is the other way to hold a rate: rows that a person has checked.

This module holds words only: a saved selection is read without loading what fits one.
"""

__all__ = ["ASSUMPTIONS", "SEEN_LABELS"]

ASSUMPTIONS = {
    "transition": "How a label goes wrong depends on the true class only, and the samples that "
    "look most like a class are of that class.",
    "exchangeable": "A wrong label is any of the wrong classes with equal chance, whatever the "
    "sample looks like.",
    "paper": "Whether a wrong label beats its knockoff does not depend on how well it fits; on "
    "real features it does.",
    "annotators": "Given the true class, annotators err independently of each other and of what a "
    "row looks like, up to one correction that the labels of a row give each other. Errors that "
    "most annotators share are not seen.",
    "theorem": "As for the paper's estimate, at the smaller level of its Theorem 2.",
}
"""What must be true for the error rate to hold, by control."""

SEEN_LABELS = (
    "The features were made without these labels. They come from a network that has seen them, so "
    "the rate is an estimate that is too low: where 10 % was asked for, 13 to 15 % of the kept "
    "labels were wrong in our measurements (docs/training.md)."
)
"""What a rate would need, and lacks, if the features come from a network in training."""
