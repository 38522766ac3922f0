"""Nights that are killed and stopped, as real processes: `python -m tests.nights`, see `tests.nights.__main__`."""
