# One public name, one meaning. In a checkout with .venv (make setup) and Python 3.12 as $PYTHON; see README.md.
set -e
"${PYTHON:-python3.12}" codemods/rename_words.py codemods/3-names.txt
.venv/bin/ruff check --select I --fix -q . || true
.venv/bin/ruff format -q .
