"""Access to AWS: one session, one factory of clients, one classification of error codes."""
