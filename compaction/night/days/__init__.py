"""Several days in one run: side by side, past those that fail, to one table and one exit code. For commands alone."""
