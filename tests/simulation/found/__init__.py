"""Defects that the simulation found, each as a test by itself."""
