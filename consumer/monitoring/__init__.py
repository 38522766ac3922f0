"""Monitoring of a task: gauges and counters, the health check, and one schema for all lines of its log."""
