"""Chaos on the real parts: `python -m tests.chaos --minutes 10 --seed 1`, see `tests.chaos.__main__`."""
