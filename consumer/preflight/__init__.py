"""`minutebook doctor`, and what `consume` checks first. Imports `archived`; imported by `daemon`."""
