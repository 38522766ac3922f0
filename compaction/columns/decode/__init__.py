"""Steps that turn a payload into JSON text before its columns are read; the archive keeps it as it came."""
