"""A processor that counts what the daemon delivers; started as `counting_processor.py LOG PROCESSOR ARGUMENTS...`.

Passes the daemon's lines on to the real processor unchanged, and notes the number of records in each call as a line
of LOG. Answers go from the processor to the daemon directly.
"""

import json
import subprocess
import sys
from pathlib import Path


def main(log: Path, command: list[str]) -> int:
    """Serve until the daemon closes the pipe; return the processor's exit code."""
    with subprocess.Popen(command, stdin=subprocess.PIPE) as processor, log.open("a", buffering=1) as counts:
        assert processor.stdin is not None
        for line in sys.stdin.buffer:
            records = json.loads(line).get("records", [])
            if records:
                counts.write(f"{len(records)}\n")
            processor.stdin.write(line)
            processor.stdin.flush()
        processor.stdin.close()
        return processor.wait()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
