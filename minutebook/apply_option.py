"""`--apply` and `--dry-run`: `restore`, `expire`, `vacuum`, `handover` show a plan; `--apply` carries it out.

What a schedule sees that was written before `--apply`: exit code 0, a last line on stdout that names the option, and
the warning `plan_not_applied` on stderr for whoever alarms on the log.
"""

import sys
from typing import Final, TextIO

import structlog

from minutebook.errors import SettingsError

UNCHANGED: Final = "nothing was changed; --apply does it"


def is_applied(*, apply: bool, dry_run: bool) -> bool:
    """Return whether the plan is to be carried out; raises SettingsError for both options together."""
    if apply and dry_run:
        raise SettingsError("--apply cannot be given with --dry-run", next_step="give one of the two")
    return apply


def tell_unchanged(command: str, *, dry_run: bool, as_json: bool = False, stdout: TextIO | None = None) -> None:
    """End a plan: print its last line unless it is JSON; warn where neither an option nor a terminal wants a plan.

    `dry_run`: it was wanted.
    """
    stdout = sys.stdout if stdout is None else stdout
    if not as_json:
        stdout.write(f"{UNCHANGED}\n")
    if not dry_run and not stdout.isatty():
        structlog.get_logger().warning(
            "plan_not_applied",
            command=command,
            next_step="give --apply to carry the plan out, or --dry-run if a plan is wanted",
        )
