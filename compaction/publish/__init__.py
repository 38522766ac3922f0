"""Publish generations of a day, and delete old ones."""
