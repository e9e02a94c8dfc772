"""Tests of the readers; a package, so that its conftest has a name of its own."""
