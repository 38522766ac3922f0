"""Rewrite a published day into files of one event day each, for tables partitioned by event day."""
