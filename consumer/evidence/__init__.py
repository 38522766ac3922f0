"""What a processor may claim about times, and how it is told. Imports `archived`, `settings` and `stream`."""
