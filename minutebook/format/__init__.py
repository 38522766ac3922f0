"""What lies on S3, as values and bytes: no I/O. Imports errors and compression of `archive`; all may import it."""
