"""The time of an event, as its payload has it: what was asked, and how far from the arrival it may lie."""
