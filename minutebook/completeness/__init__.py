"""Until when the archive is complete: boundaries, by the rows of workers and the rules of `minutebook.coverage`.

    rows.py ......... one shard's times, as its workers' rows say them
    folding.py ...... which boundaries everything has reached, what holds the next one, and which gaps are named
    objects.py ...... the markers and rows on S3
    judging.py ...... what the archive itself says of times that no row covers
    withdrawing.py .. what turned out wrong after it was published, by publishers and by the nightly job
    publisher.py .... one attempt: read, fold, write
    query.py ........ until when is it complete? For `minutebook wait`, `status` and `minutebook.reader`

Nothing here changes what is archived, and a processor's commit waits for none of it (docs/decisions/0045).
"""
