"""Producer duplicates at night, across two days. Imports `job` and what lies below it."""
