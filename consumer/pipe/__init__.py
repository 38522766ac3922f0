"""The pipe from the daemon: its capacity, lines in bounded memory, messages and their records.

Imports nothing of the consumer; imported by `processor`.
"""
