"""From a source to its features: embedders, their cache, and the one function that loads."""
