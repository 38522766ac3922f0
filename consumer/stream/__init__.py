"""The Kinesis stream as the consumer asks it. Ground: imports no other room of the consumer."""
