"""The audit of a day: view it, read it, judge it, and write the verdict down.

`audit.audit_day` (the command `audit`) and `audit.examine` (a rewrite of the night) go through these files from top
to bottom. The driver plans and decides. Objects lie in groups of shards: Spark's tasks work on them, or this process
where a day is small.

    audit              the whole, and which days are viewed again because they change while they are read
    day_view           the view: checkpoints, markers, then objects by name
    known, gone        what earlier runs read of the objects, and what was published clean and is not listed any more
    reading            the lines: which tasks there are, by what earlier runs have left
      shards.objects     in a task: cut tasks, read (`parquet.reading` collects facts), give these back to the groups
      collecting         with an event id: the day before, too, and numbers for all objects
    day_auditor        the judgement: asks the groups, searches neighbours and originals in between
      shards.misplaced   copies of objects, and segments under another shard's key
      shards.group_view  in a task: each shard of a group, by the rules
        rules.chain        links, start and end         rules.lines        lines against metadata, and their balance
        rules.dropped      dropped producer duplicates  rules.originals    where the records are that were kept
        shards.minutes     what a shard holds by minute, for pictures
    coverage           the times of which nothing proves that all that arrived is archived
    copies             with an event id: copies of events, and the orders that leave them out
    stream.level       level stream: Kinesis is read again
      stream.slices      in a task: one slice of a shard
      stream.records     one record against the other
    conclusion         what all that comes to, and the document: findings, checks, the equation, the verdict

    rejudge            later: a published day by newer evidence

`audit.py` calls these in turn; what a file makes, those below it take.
"""
