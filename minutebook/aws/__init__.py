"""How AWS is reached: one session, one factory of clients, one judgement of error codes."""
