"""What each control assumes, in a sentence: summaries, reports and documents repeat it."""

__all__ = ["ASSUMPTIONS"]

ASSUMPTIONS = {
    "transition": "How a label goes wrong depends on the true class only, and the samples that "
    "look most like a class are of that class.",
    "exchangeable": "A wrong label is any of the wrong classes with equal chance, whatever the "
    "sample looks like.",
    "paper": "Whether a wrong label beats its knockoff does not depend on how well it fits; on "
    "real features it does.",
    "theorem": "As for the paper's estimate, at the smaller level that its Theorem 2 asks for.",
}
"""What must be true for the error rate to hold, by control."""
