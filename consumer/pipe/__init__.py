"""What comes down the daemon's pipe: how much it holds, lines in bounded memory, messages and records in them.

Imports nothing of the consumer; `processor` takes what is read here.
"""
