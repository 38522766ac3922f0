"""What both sides agree on (`format`, `store`, `coverage`, ...), and what people import: `reader` and `cat`.

This module imports nothing: each forked processor pays for what it would. The command line is `minutebook.cli`.
"""
