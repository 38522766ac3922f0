"""The Kinesis stream as the consumer uses it. Ground: imports no other room of the consumer."""
