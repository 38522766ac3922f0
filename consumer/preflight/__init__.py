"""The checks of `minutebook doctor` and before `consume`. Imports `archived`; imported by `daemon`."""
