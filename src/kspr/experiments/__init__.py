"""Experiments: selectors compared, the paper reproduced, and a demonstration."""
