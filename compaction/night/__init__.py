"""The story of a night: which days are visited, and what becomes of each.

    due                which days are due, and why
    rewrite            one day: judge it again, or read, audit and publish it; here a late object's day is decided
      generation_name    the same objects or not: a late object gives the day another name
      pointer_update     the swap of the day's pointer, and the withdrawal of a verdict
    dry_run            what `rewrite` would do, without writing
    days               several days in one run

What a run leaves undone when it dies, the next one finishes.
"""
