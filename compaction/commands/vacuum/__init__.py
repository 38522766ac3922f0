"""`minutebook vacuum`: what no pointer names any more, below the output. Imports `publish` and what is below it."""
