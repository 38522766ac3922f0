"""What an archive proves of its times, read from its store. Imports `errors`, `format`, `coverage` and `store`.

The nightly audit, `status`, `expire` and `restore` judge by it. Nothing here writes.
"""
