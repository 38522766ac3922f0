"""Published days as an Iceberg table: the only room that imports pyiceberg."""
