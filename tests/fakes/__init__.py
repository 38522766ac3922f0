"""Doubles of the world outside: clock, store, stream and daemon. They can fail, and have tests of their own."""
