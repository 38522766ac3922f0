"""The embedded AWS, and the scenario that shows Minutebook on it."""
