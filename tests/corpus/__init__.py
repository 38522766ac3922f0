"""Archives made for audits: whole ones, and ones with defects whose places are known."""
