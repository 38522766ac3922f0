"""What makes the daemon's JVM start faster: our classes as a jar, and a class archive. Imports `preflight`."""
