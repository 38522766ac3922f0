"""The documentation's site: the pages that are made from the code, and the hook that gives them to MkDocs."""
