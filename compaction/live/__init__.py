"""The live parts of a day: read them, cut them to the segments that no inventory names, and swap their pointer."""
