"""The training cycle and its parts."""
