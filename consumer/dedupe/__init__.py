"""Producer duplicates: claims and watermarks. Imported by `processor`, `restore` and `expire`."""
