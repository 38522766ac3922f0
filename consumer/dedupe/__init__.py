"""Producer duplicates: claims and watermarks. Ground: imports no other room of the consumer."""
