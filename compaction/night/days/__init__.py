"""Several days in one run, side by side: one that fails stops no other. Only commands import this room."""
