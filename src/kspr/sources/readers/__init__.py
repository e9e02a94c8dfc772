"""Readers of users' own files; `kspr.sources.opening` chooses among them."""
