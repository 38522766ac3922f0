"""Payloads as typed columns, beside the envelope: `tasks`, and whoever reports on them, may import it."""
