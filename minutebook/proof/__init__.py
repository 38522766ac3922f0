"""Read the evidence of a scope, and judge it. Imports `errors`, `format`, `coverage`, `index` and `store`.

The nightly audit, `status`, `expire` and `restore` use it. It never writes.
"""
