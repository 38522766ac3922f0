# Minutebook. `make` lists the targets. Everything downloaded stays in .venv/ and .cache/ of this checkout.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
TOOLS := .cache/tools
UV := $(TOOLS)/bin/uv
READY := $(VENV)/.ready
PREPARED := $(VENV)/.prepared
SERVERS := .cache/aws/.ready
# Without resolving: the locks are complete.
INSTALL := $(UV) pip install --quiet --no-deps --require-hashes --build-constraints requirements/build.lock --python
COMPILE := $(UV) pip compile --quiet --universal --generate-hashes --python-version 3.11 \
	--no-emit-index-url --no-header --no-annotate

# The first interpreter that really is a Python 3.11, 3.12 or 3.13 (a version manager's shim may be none);
# `make setup PYTHON=/path/to/python3.12` names another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	>/dev/null 2>&1 && { command -v "$$name"; break; }; done)

# More than twice what a small machine has of cores: the tests of the real daemon mostly wait.
WORKERS ?= 6

# The readers of Iceberg tables for the Sparks of `make readers`.
ICEBERG_SPARK_3.5 := org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.10.1
ICEBERG_SPARK_4.0 := org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.10.1

# What evaluates alerting rules: the machine's own, or that of Debian's package, which is not installed, because it would
# start a server.
PROMTOOL := $(or $(shell command -v promtool),.cache/promtool/promtool)

# Where `make dist` and `make docs` put what they build.
DIST ?= dist
SITE ?= site

export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_CACHE_DIR := $(CURDIR)/.cache/uv
export UV_NO_PROGRESS := 1
# Machines behind a proxy with a certificate of its own have it in the system's store.
export UV_SYSTEM_CERTS ?= true
export npm_config_cache := $(CURDIR)/.cache/npm

# A machine that keeps no bytecode compiles every module anew in each of the hundreds of processes that tests start.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo aws test deep test-fast e2e alarms chaos hostloss upgrade malformed model simulate lives cuts follows boundaries nights fuzz sparks readers catalogs kcl classes docs lint type format bench dist nightly-env lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the commands `minutebook` and `minutebook-processor` (the first time 744 MB, some minutes)
	@:

demo: $(READY) ## archive real flights on an embedded AWS, with crashes on the way, and prove nothing is lost
	@$(BIN)/minutebook demo $(ARGS)

# The tutorial's own environment needs no Spark, nor do the servers: without a .venv, they take what the consumer needs.
aws: $(if $(wildcard $(READY)),$(READY),$(SERVERS)) ## embedded AWS with an empty stream and bucket until Ctrl-C: the tutorial's (docs/tutorial.md; the first time 97 MB)
	@$(<D)/bin/python -m demo.serve .demo/aws

$(SERVERS): $(UV) requirements/consumer.lock requirements/build.lock
	@echo "setup: what the servers' programs need, and KCL's jars (57 MB)"
	@test -x $(@D)/bin/python || $(UV) venv --quiet --python $(TOOLS)/bin/python $(@D)
	@$(INSTALL) $(@D)/bin/python --requirement requirements/consumer.lock
	@touch $@

test: $(PREPARED) ## run the tests, but for what `make deep` adds; `make test ARGS="-k name"` runs some
	@command -v spin >/dev/null || echo "test: without tests/model, because spin is missing (Debian: apt-get install spin)"
	@test -x "$(PROMTOOL)" || echo "test: without tests/alarms, because promtool is missing (Debian: make $(PROMTOOL))"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
		$$(command -v spin >/dev/null || echo --ignore=tests/model) \
		$$(test -x "$(PROMTOOL)" || echo --ignore=tests/alarms) $(ARGS)

deep: ## run every test, and search as long as the tests can: what to do before a release (hours)
	@TESTS_SEARCH=deep $(MAKE) test ARGS="--timeout 3600 $(ARGS)"

test-fast: $(READY) ## run the tests that need no server
	@$(BIN)/python -m pytest tests/unit tests/property $(ARGS)

e2e: $(READY) ## run the tests on the real MultiLangDaemon
	@$(BIN)/python -m pytest tests/e2e $(ARGS)

alarms: $(READY) $(PROMTOOL) ## evaluate the alarms of deploy/grafana with promtool (without one: 19 MB, of Debian's package)
	@$(BIN)/python -m pytest tests/alarms $(ARGS)

.cache/promtool/promtool:
	@rm -rf $(@D) && mkdir -p $(@D)
	@cd $(@D) && apt-get download --quiet prometheus && dpkg-deb --extract prometheus_*.deb package
	@mv $(@D)/package/usr/bin/promtool $@ && rm -rf $(@D)/package $(@D)/prometheus_*.deb

model: ## check the model of the commit protocol and its broken variants (needs spin)
	@"$(PYTHON)" docs/model/run.py $(ARGS)

simulate: $(READY) ## search SEEDS=0..20000 histories of each of MODES=all for a broken promise: zombies, faults, clocks, copies
	@$(BIN)/python -m tests.simulation --modes $(or $(MODES),all) --seeds $(or $(SEEDS),0..20000) $(ARGS)

chaos: $(READY) $(if $(FOLLOW),.cache/iceberg-rest/.ready) ## break the real parts for MINUTES=10 with SEED=1 (HOSTILE=1: hostile producers, too; STREAMS=4: in a fleet; FOLLOW=1: with a table), then prove that nothing is lost or doubled
	@$(BIN)/python -m tests.chaos --minutes $(or $(MINUTES),10) --seed $(or $(SEED),1) $(if $(HOSTILE),--hostile) --streams $(or $(STREAMS),1) $(if $(FOLLOW),--catalog .cache/iceberg-rest) $(ARGS)

hostloss: $(READY) ## lose RUNS=50 hosts for good under the real daemon: is every shard read again, is nothing lost? (hours)
	@$(BIN)/python -m tests.e2e.host_loss --runs $(or $(RUNS),50) $(ARGS)

upgrade: $(READY) ## upgrade from, roll back to and upgrade from OLD=folder, an earlier release's checkout with .venv, while records arrive (10 minutes)
	@$(BIN)/python -m tests.e2e.rolling_upgrade --old $(OLD) $(ARGS)

malformed: $(READY) ## send RECORDS=1000 malformed aggregates of SEED=1 among good records through the real daemon (minutes)
	@$(BIN)/python -m tests.e2e.malformed --records $(or $(RECORDS),1000) --seed $(or $(SEED),1) $(ARGS)

lives: $(READY) ## live LIVES=200 lives of archives and their nights from SEED=1 on (two seconds a life; MODEL=1: a twentieth)
	@$(BIN)/python -m tests.lives$(if $(MODEL),.model) --lives $(or $(LIVES),200) --seed $(or $(SEED),1) $(ARGS)

cuts: $(READY) ## cut HISTORIES=2000 random archives from SEED=1 on and hand over: is each record on one side? (7 ms each)
	@$(BIN)/python -m tests.cuts --histories $(or $(HISTORIES),2000) --seed $(or $(SEED),1) $(ARGS)

follows: $(READY) ## follow HISTORIES=100 archives into a table from SEED=1 on: is each row there once, does none go? (1 s each)
	@$(BIN)/python -m tests.follows --histories $(or $(HISTORIES),100) --seed $(or $(SEED),1) $(ARGS)

boundaries: $(READY) ## live HISTORIES=1000 workers' histories from SEED=1 on: are the boundaries true, do they come? (110 ms each)
	@$(BIN)/python -m tests.boundaries --histories $(or $(HISTORIES),1000) --seed $(or $(SEED),1) $(ARGS)

nights: $(READY) ## kill KILLS=20 drivers of the nightly job with SEED=1, stop ranges of days, then prove every row (minutes)
	@$(BIN)/python -m tests.nights --kills $(or $(KILLS),20) --seed $(or $(SEED),1) $(ARGS)

fuzz: $(READY) ## throw fresh hostile input at every reader, 120 times as long as the tests do (minutes)
	@TESTS_SEARCH=deep $(BIN)/python -m pytest tests/fuzz --timeout 3600 $(ARGS)

docs: $(READY) ## build the documentation's site into SITE=site: open site/index.html
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean --site-dir "$(abspath $(SITE))" $(ARGS)

lint: $(READY) ## check style, and the template in deploy/
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/cfn-lint deploy/cloudformation/*.yaml

type: $(READY) ## check types
	@$(BIN)/mypy

format: $(READY) ## put the code into its one format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

sparks: $(READY) .cache/spark-3.5/.ready .cache/spark-4.0/.ready ## test the nightly job on PySpark 3.5 and 4.0, too (minutes)
	@for line in 3.5 4.0; do echo "PySpark $$line"; PYTHONPATH=.cache/spark-$$line $(BIN)/python -m pytest \
		-W ignore::pytest.PytestUnraisableExceptionWarning tests/integration/compaction/test_spark.py \
		tests/integration/compaction/test_copies.py $(ARGS) || exit 1; done

# Beside the locked PySpark, not instead of it: first on the path, with its own py4j.
.cache/spark-%/.ready: requirements/spark-%.lock $(UV)
	@rm -rf $(@D)
	@$(UV) pip install --quiet --python $(TOOLS)/bin/python --target $(@D) --no-deps --require-hashes \
		--build-constraints requirements/build.lock --requirement $<
	@touch $@

readers: $(READY) $(foreach line,3.5 4.0,.cache/spark-$(line)/.ready .cache/iceberg-spark-$(line)/.ready) .cache/duckdb-iceberg/.ready ## let Spark 3.5, Spark 4.0 and DuckDB read Iceberg tables that evolved, by event, and of seven shapes (minutes)
	@for line in 3.5 4.0; do for name in evolved_table event_table seven_shapes; do \
		PYTHONPATH=.cache/spark-$$line:.cache/duckdb-iceberg $(BIN)/python -m benchmarks $$name \
		--jar .cache/iceberg-spark-$$line/iceberg-spark-runtime-*.jar $(ARGS) || exit 1; done; done

.cache/duckdb-iceberg/.ready: requirements/duckdb-iceberg.lock $(UV)
	@rm -rf $(@D)
	@$(UV) pip install --quiet --python $(TOOLS)/bin/python --target $(@D) --no-deps --require-hashes --requirement $<
	@touch $@

.cache/iceberg-spark-%/.ready:
	@rm -rf $(@D)
	@mvn --quiet --batch-mode org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
		-Dartifact=$(ICEBERG_SPARK_$*) -DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

catalogs: $(READY) .cache/iceberg-rest/.ready ## test --iceberg with a REST catalog, too (minutes)
	@ICEBERG_REST_JARS=.cache/iceberg-rest $(BIN)/python -m pytest tests/integration/compaction/test_tables.py \
		$(foreach name,columns conflicts doubts events left_alone orphans rest vacuum,tests/integration/compaction/test_iceberg_$(name).py) $(ARGS)

.cache/iceberg-rest/.ready: requirements/iceberg-rest/pom.xml
	@rm -rf $(@D)
	@mvn --quiet --batch-mode --file $< org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
		-DoutputDirectory=$(CURDIR)/$(@D)
	@touch $@

kcl: $(READY) ## run the tests of the real daemon on the KCL whose jars lie in the folder JARS=
	@test -n "$(JARS)" || { echo "kcl: name the folder of the jars: make kcl JARS=/path" >&2; exit 2; }
	@rm -rf .cache/kcl && mkdir -p .cache/kcl && cp -r $(VENV)/lib/python3.*/site-packages/amazon_kclpy .cache/kcl
	@rm -rf .cache/kcl/amazon_kclpy/jars && ln -s $(abspath $(JARS)) .cache/kcl/amazon_kclpy/jars
	@PYTHONPATH=$(CURDIR)/.cache/kcl $(BIN)/python -m pytest \
		tests/integration/consumer/test_kcl_aggregates.py tests/e2e $(ARGS)

classes: $(READY) ## compile our Java classes beside their sources (needs javac)
	@javac --release 11 -g:lines -Xlint:-options -cp "$$(echo $(VENV)/lib/python3.*/site-packages/amazon_kclpy/jars)/*" \
		-d consumer/daemon/classes $$(find consumer/daemon/classes -name '*.java')

bench: $(READY) ## measure speed, size and recovery (more than an hour; ARGS=density for one; tables and numbers in .bench)
	@$(BIN)/python -m benchmarks $(or $(ARGS),suite)

dist: $(UV) ## build the wheel and the source distribution into DIST=dist
	@rm -f $(DIST)/minutebook-*.whl $(DIST)/minutebook-*.tar.gz
	@$(UV) build --quiet --build-constraints requirements/build.lock --require-hashes --out-dir $(DIST)
	@ls $(DIST)/minutebook-*.whl $(DIST)/minutebook-*.tar.gz

nightly-env: dist ## pack the nightly job's environment into DIST=dist for EMR, Glue and others (PY=3.11, PLATFORM=)
	@$(TOOLS)/bin/python deploy/nightly_env.py --uv "$(abspath $(UV))" --out "$(DIST)" \
		$(if $(PY),--python $(PY)) $(if $(PLATFORM),--platform $(PLATFORM))

lock: $(UV) ## pin the newest allowed versions in requirements/*.lock
	cd requirements && for name in tools build ministack node java spark-3.5 spark-4.0 duckdb-iceberg; do \
		../$(COMPILE) $$name.in --output-file $$name.lock --upgrade || exit 1; done
	$(COMPILE) pyproject.toml --constraints requirements/constraints.txt --upgrade \
		--output-file requirements/consumer.lock
	$(COMPILE) pyproject.toml --extra compact --upgrade --constraints requirements/constraints.txt \
		--constraints requirements/consumer.lock --output-file requirements/compact.lock
	$(COMPILE) pyproject.toml --extra spark --upgrade --constraints requirements/constraints.txt \
		--constraints requirements/compact.lock --output-file requirements/spark.lock
	$(COMPILE) pyproject.toml --extra spark --extra iceberg --upgrade --constraints requirements/constraints.txt \
		--constraints requirements/spark.lock --output-file requirements/iceberg.lock
	$(COMPILE) pyproject.toml --extra compact --extra iceberg --upgrade --constraints requirements/constraints.txt \
		--constraints requirements/iceberg.lock --output-file requirements/follow.lock
	$(COMPILE) pyproject.toml --extra spark --extra iceberg --group dev --group demo --upgrade \
		--constraints requirements/constraints.txt --constraints requirements/iceberg.lock \
		--overrides requirements/overrides.txt --output-file requirements/dev.lock

clean: ## remove everything that was downloaded or produced
	rm -rf .venv .cache .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist site

$(UV): requirements/tools.lock
	@test -n "$(PYTHON)" || { echo "Minutebook needs Python 3.11, 3.12 or 3.13 with its venv module" \
		"(Debian: python3-venv): install one, or name it with PYTHON=/path/to/python." >&2; exit 2; }
	@echo "setup: uv, which installs the rest (17 MB; with $(PYTHON))"
	@rm -rf $(TOOLS)
	@"$(PYTHON)" -m venv $(TOOLS)
	@$(TOOLS)/bin/python -m pip install --quiet --only-binary=:all: --require-hashes --requirement $<
	@touch $@

# In steps, because the first time takes minutes: each lock holds the one before it, and a step says what it downloads.
# amazon-kclpy is built from source: that fetches KCL's jars.
$(READY): $(UV) pyproject.toml CHANGELOG.md requirements/dev.lock requirements/build.lock hatch_build.py \
		minutebook/codec/library.py $(wildcard minutebook/codec/src/*)
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(TOOLS)/bin/python $(VENV)
	@echo "setup: what the consumer needs, and KCL's jars (57 MB, the first time)"
	@$(INSTALL) $(BIN)/python --requirement requirements/consumer.lock
	@echo "setup: what the nightly job needs: Spark, Arrow, Iceberg (570 MB, the first time)"
	@$(INSTALL) $(BIN)/python --requirement requirements/iceberg.lock
	@echo "setup: what tests and documentation need (100 MB, the first time)"
	@$(INSTALL) $(BIN)/python --requirement requirements/dev.lock
	@echo "setup: Minutebook itself"
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps \
		--build-constraints requirements/build.lock --editable .
	@touch $@

# Where they cannot be made, JVMs start as they always did. The tests' modules are compiled here once, else each worker
# of `make test` would do it at the same time.
$(PREPARED): $(READY) tests/prepare.py tests/quick_java.py $(wildcard $(addprefix consumer/daemon/classes/,*/*.java */*/*/*.java */*/*/*/*.java */*/*/*/*/*.java))
	@echo "setup: class archives, so that the tests' JVMs start faster"
	@$(BIN)/python -m tests.prepare >/dev/null || echo "setup: without them"
	@$(BIN)/python -m pytest --collect-only -qq >/dev/null 2>&1 || true
	@touch $@
