"""What the archive holds of a day, before anything is judged. Imports `verdict` at most."""
