"""Raw segments as records and rows: fetched ahead in bounded memory, each position once."""
