"""The rings of tests; tests/README.md names them."""
