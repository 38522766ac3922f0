"""`minutebook vacuum`: delete what no pointer names below the output."""
