"""Payloads that become columns without Python objects between: by the native codec, where it is there."""
