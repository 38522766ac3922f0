"""`minutebook restore`. Imports `archived` and `leases`; imported by no other room."""
