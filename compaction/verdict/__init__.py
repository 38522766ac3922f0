"""Findings and the document they end in. Ground: imports no other room."""
