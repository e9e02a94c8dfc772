"""What is done with a source and a selection on disk."""
