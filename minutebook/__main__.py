"""`python -m minutebook`: the command line."""

from minutebook import main

main()
