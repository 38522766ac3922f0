"""A deterministic simulation of processors and of everything around them: one seed decides a history.

The rooms, from the ground up: `world`, `services/`, `promises/`, `histories/`, `search`; `found/` is beside them.
"""
