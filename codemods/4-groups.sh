# Shard groups, and what is done with them. In a checkout with .venv (make setup) and Python 3.12 as $PYTHON.
set -e
"${PYTHON:-python3.12}" codemods/rename_words.py codemods/4-groups-symbols.txt
"${PYTHON:-python3.12}" codemods/rename_words.py codemods/4-groups-words.txt
.venv/bin/ruff check --select I --fix -q . || true
.venv/bin/ruff format -q .
