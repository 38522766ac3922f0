"""What can happen in a history: each function is one event, and does nothing when it cannot happen just now."""
