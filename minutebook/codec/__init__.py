"""What is read and written most, in C: plain functions over memory, called without a copy.

Each has a twin in Python that decides what is right: the C code takes what is plainly usual, gives the same bytes,
and leaves all else to the twin. Without a C compiler at installation there is the twin alone
(docs/decisions/0047-a-native-codec.md).
"""
