"""The story of a night: list and audit a day, write and publish it, judge published days again."""
