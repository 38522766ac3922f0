"""A stream of Kinesis as both sides ask it: requests, what they are answered, and the service's own time."""
