"""What the consumer and the nightly job agree on: the archive's format and the rules of its store.

Imports neither `consumer` nor `compaction`.
"""
