"""What the nightly job publishes of a day, and everybody who reads it follows: names, documents and columns."""
