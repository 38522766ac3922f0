"""What the archive already holds, for those who go on from there. Imports `stream` alone."""
