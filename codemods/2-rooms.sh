# The rooms of compaction/. In a checkout with .venv (make setup); see README.md.
set -e
.venv/bin/python codemods/move_modules.py codemods/2-rooms.txt
find compaction tests -type d -empty -delete 2>/dev/null || true
echo '"""What a person types: each command reads its settings, wires, runs and shows. At the top: no room imports it."""' \
    > compaction/commands/__init__.py
echo '"""The story of a night: list and audit a day, write and publish it, judge published days again."""' \
    > compaction/night/__init__.py
echo '"""Lines of segments as rows of Parquet files: planned, read, sorted and written. Knows no task."""' \
    > compaction/parquet/__init__.py
git add -A
.venv/bin/ruff check --select I --fix -q . || true
.venv/bin/ruff format -q .
git add -A
