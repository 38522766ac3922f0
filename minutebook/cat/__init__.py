"""`minutebook cat`: raw records by the minute they arrived in. May import what the nightly job asks of an archive."""
