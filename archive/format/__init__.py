"""What lies on S3, as values and bytes: no I/O. Imports `archive.errors` alone; everybody may import it."""
