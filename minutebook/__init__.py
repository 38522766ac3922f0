"""What people call: the command line (`front_door`), published days as tables (`reader`), raw records (`cat`).

`import minutebook.reader` needs neither Spark nor the command line. Reader and `cat` stand on `archive` alone, and
import nothing of the consumer and of the nightly job.
"""


def main() -> None:
    """Run the command line: what the console script calls."""
    from minutebook.front_door import main as run  # noqa: PLC0415 - whoever imports the reader needs no commands

    run()
