"""A processor measured as a process: what comes down its pipe, where its PUTs go, and what it uses meanwhile."""
