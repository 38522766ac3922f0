"""What a person reads: terminal, HTML page, pictures. Imports `verdict`; imported by `command`."""
