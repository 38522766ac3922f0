"""What a day holds, before anything is judged. Imports `stream` and `verdict` at most."""
