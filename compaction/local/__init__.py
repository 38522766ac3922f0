"""Run a night's tasks on this machine, without a JVM."""
