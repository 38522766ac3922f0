"""Requests to object stores and what they may answer. Imports `format`, `retry` and `aws`."""
