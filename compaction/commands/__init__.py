"""What a person types: each command reads its settings, wires, runs and shows. At the top: no room imports it."""
