"""What a night was asked for, and what it works with. Imported by whatever runs in the driver."""
