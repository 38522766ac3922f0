"""Which times of which shards are proven to be archived: rules without I/O. Imports `errors` and `format` alone.

The audit, `status`, `restore` and `expire` judge by them, and the processor decides by them what it may claim.
"""
