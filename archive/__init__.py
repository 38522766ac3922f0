"""What the consumer and the nightly job agree on: errors, clock, retries, AWS. Imports neither of them."""
