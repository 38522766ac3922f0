"""Boundaries: the supervisor says until when its shards are archived, and publishes what all workers have reached.

    known.py ....... what the processors' lines, and its own looks, say of each shard
    looks.py ....... reads quiet shards to their tip, soon after each boundary
    saying.py ...... stores the news: `_until/`
    due.py ......... what is due of a stream beside its daemon
    pool.py ........ the threads that do it, of all streams of a supervisor; nothing waits for them

A processor's commit waits for none of this, and its durable evidence is changed by none of it.
"""
