"""What happens, decided by a seed: scenarios, events, and how they are played on the services and checked."""
