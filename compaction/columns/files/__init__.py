"""Files that name columns: a mapping, a JSON Schema or an Avro schema is read, and a mapping proposed."""
