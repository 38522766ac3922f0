"""The objects on S3 as values and bytes, without I/O. Imports only `errors` and `compression`."""
