"""What the daemon's JVM starts faster with: our classes as a jar, and a class archive. Imports `preflight`."""
