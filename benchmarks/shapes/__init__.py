"""Seven shapes of payloads: each is made of values, and says the rows that these values must become."""
