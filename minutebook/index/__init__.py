"""Search the archive by name. Imports `errors`, `format` and `store`.

No object points at the newest segment. Keys begin with their minute, so searches list folders of days and hours.
"""
