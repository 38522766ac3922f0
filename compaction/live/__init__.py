"""The day compared with the stream itself, while retention lasts. Imported by `audit` alone."""
