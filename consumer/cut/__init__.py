"""`minutebook cut` and `minutebook handover`. Imports `archived` and `leases`; imported by no other room."""
