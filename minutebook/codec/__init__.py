"""The hot paths of reading and writing in C: functions over memory, called through ctypes without a copy.

Each has a twin in Python that defines the result. The C code accepts only the usual form of its input, for which it
gives the same bytes, and leaves everything else to the twin. Without a C compiler at installation, only the twins run
(docs/decisions/0041-a-native-codec.md).
"""
