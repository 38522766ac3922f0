"""Published days: names, documents and columns, for the nightly job and all readers."""
