"""Hours of a day that are published by themselves, until the day is. Imports `publish` and `tasks`, and no job."""
