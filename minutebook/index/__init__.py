"""The archive's names, walked once: days, hours, minutes. Imports `errors`, `format` and `store`.

Nothing points at the newest segment. Keys begin with their minute, so every search lists folders of days and hours.
"""
