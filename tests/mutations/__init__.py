"""Small ways to break Minutebook, each of which a named test must notice."""
