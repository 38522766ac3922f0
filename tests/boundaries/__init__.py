"""Boundaries of random histories: is what they say true, and does it come?"""
