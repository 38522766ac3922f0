"""Processors forked from one process that has loaded everything; `daemon` starts it, in it runs `serving`."""
