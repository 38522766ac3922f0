"""The stream itself, read again by the audit. Ground: imports no other room."""
