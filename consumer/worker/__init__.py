"""A worker on its host: its id, and the folder where its supervisor keeps files and a lock."""
