"""Producer deduplication: claims and watermarks. Imports no other room of the consumer."""
