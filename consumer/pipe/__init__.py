"""What comes down the daemon's pipe: lines in bounded memory, and the messages and records in them.

Imports nothing of the consumer; `processor` takes what is read here.
"""
