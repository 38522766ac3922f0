# archive/ becomes part of minutebook/. In a checkout with .venv (make setup); see README.md.
set -e
git rm -qf archive/py.typed archive/__init__.py
.venv/bin/python codemods/move_modules.py codemods/1-archive.txt
find archive consumer tests -type d -empty -delete 2>/dev/null || true
echo '"""How AWS is reached: one session, one factory of clients, one judgement of error codes."""' > minutebook/aws/__init__.py
sed -i 's/"archive", //' pyproject.toml docsite/log_events.py tests/unit/project/*.py
sed -i 's/four_packages/three_packages/' tests/unit/project/test_package.py
sed -i 's#"archive" / "native"#"minutebook" / "codec"#; s#Path("archive") / "native"#Path("minutebook") / "codec"#' \
    hatch_build.py tests/fakes/compiled_codec.py tests/fuzz/*.py tests/unit/minutebook/codec/*.py
sed -i '/^COPY archive archive$/d' Dockerfile
sed -i '/^!archive$/d' .dockerignore
sed -i -E 's#\b(unit|integration)/archive/#\1/minutebook/#g' tests/README.md
git add -A
.venv/bin/ruff check --select I --fix -q . || true
.venv/bin/ruff format -q .
git add -A
