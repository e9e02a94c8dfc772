"""The page on which people check labels: a local server on one run.

`serve` starts it; the answers are in the run, and every reader of the run takes them from there.
"""
