"""Alg. 3: a network and a selection that improve each other."""
