"""Lets ``python -m kspr`` be the command line."""

from kspr.cli import main

main()
