"""Histories of an archive that is followed into a table, and of its nights, from seeds."""
