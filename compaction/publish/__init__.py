"""Making a generation of a day the current one, and sweeping what is left over."""
