"""The nightly commands: each reads its settings, wires, runs and shows. No other room imports this one."""
