"""Which times of which shards are proven to be archived: rules without I/O. Imports only `errors` and `format`.

The audit, `status`, `restore` and `expire` judge by these rules; the processor uses them to decide what it may claim.
"""
