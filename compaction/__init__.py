"""The nightly side: the audit that proves a day of the archive, and its rewrite to Parquet.

Imports `archive`, never `consumer`: the two sides agree on the format alone. Everything but `storage`, `leases`,
`spark` and the tasks is plain values in and plain values out.
"""
