"""`python -m minutebook`: the command line."""

from minutebook.cli import main

main()
