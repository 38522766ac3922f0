"""Cuts and hand-overs of random histories: each record on exactly one side."""
