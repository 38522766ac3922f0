"""`minutebook` with tasks of two segments, so that a small day takes long: `python -m tests.nights.driver`."""

from compaction.parquet import plan

plan.SIZES = plan.TaskSizes(segments=2, shards=2)  # type: ignore[misc] # before anybody has read it

from minutebook.cli import main  # noqa: E402 - behind the line above

if __name__ == "__main__":
    main()
