"""A client of one Kinesis stream: requests, their answers as values, and the service's time."""
