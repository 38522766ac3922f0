"""What the tests themselves send, read back and hear: nothing here is a double, and every ring may use it."""
