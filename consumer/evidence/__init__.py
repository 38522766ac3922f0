"""Evidence of complete reading: segment claims, read marks, markers. Imports `archived`, `settings` and `stream`.

Functions that send requests raise StoreUnavailable, StoreRefused, StreamUnavailable and StreamRefused, and
FormatError for a stored object that does not parse.
"""
