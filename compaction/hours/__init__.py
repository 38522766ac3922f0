"""Hours that are published before their day is. Imports `publish` and `tasks`, and no job."""
