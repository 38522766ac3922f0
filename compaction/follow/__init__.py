"""`minutebook follow`: write what was archived since the last tick into live parts, and commit them to the table."""
