"""`minutebook expire`. Imports `archived`; imported by no other room."""
