"""Typed columns of payloads, beside the envelope."""
