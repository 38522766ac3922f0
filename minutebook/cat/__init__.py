"""`minutebook cat`: raw records in the order of their minutes of arrival."""
