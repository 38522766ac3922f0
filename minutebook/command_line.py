"""What reading adds to `minutebook`: its commands. Each imports what it needs when it is called."""

import os

from minutebook.cat.options import CatOptions
from minutebook.options import command


@command
def cat(options: CatOptions) -> int:
    """Print archived records by the time they arrived, straight from the raw segments; changes nothing."""
    from minutebook.cat.command import run_cat as run  # noqa: PLC0415 - help is quick

    return run(options, os.environ)


COMMANDS = (cat,)
