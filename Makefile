# `make` alone prints the targets. Everything happens in .venv and in the user's cache directory; nothing on the system is
# changed and root is not needed.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# The first Python on PATH that is new enough.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
PY := $(VENV)/bin/python
RUN_READY := $(VENV)/.ready-to-run
DEV_READY := $(VENV)/.ready-to-develop
SPARK_READY := $(VENV)/.ready-for-spark

# As pip does with what it installs: without bytecode a start takes half as long again, and where PYTHONDONTWRITEBYTECODE
# is set Python would never keep it. What is up to date is passed over; a tree that cannot be written to serves as it is.
SERVED := upwell proxy bulk external_upquery vstream dataflow planner gtid_tracker sqltypes
# Compiled modules that are not of the sources beside them run nothing.
COMPILE = { $(PY) -m compileall -qq $(SERVED) || true; } && $(PY) -m upwell.form

# Given on the command line: make run UPSTREAM=mysql://user:password@host:port[/database] SCALE=tiny
# or UPSTREAM='vitess://user:password@host:port/keyspace?grpc=host:port', with ARGS=--load to load the sample first
UPSTREAM ?=
SCALE ?=
export UPSTREAM SCALE

# make demo SPARK=on: every cache of the sample is filled with all its keys by Spark, and audited.
SPARK ?=
BY_SPARK = $(filter on,$(SPARK))

.PHONY: help
help:  ## print these lines
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

$(PY):
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; name one with make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) cannot make a virtual environment; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

# The source tree itself is what runs: a .pth file and a two-line command need no build.
$(RUN_READY): requirements/server.lock requirements/charts.lock | $(PY)
	@echo "installing what Upwell needs into $(VENV) (once, about half a minute)"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/server.lock -r requirements/charts.lock
	@$(PY) -c 'import pathlib, sysconfig; pathlib.Path(sysconfig.get_path("purelib"), "upwell.pth").write_text("$(CURDIR)\n")'
	@printf '#!/bin/sh\nexec "%s/$(PY)" -P -m upwell "$$@"\n' "$(CURDIR)" > $(VENV)/bin/upwell && chmod +x $(VENV)/bin/upwell
	@touch $@

# Most of its modules no test imports: the others get their bytecode from those that do, instead of all from pip.
$(DEV_READY): requirements/dev.lock $(RUN_READY)
	@echo "installing what tests and checks need into $(VENV) (once)"
	@$(PY) -m pip install -q --no-compile --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

# Large fills by Spark (docs/bulk.md). Tests and checks bring it, too.
##@ to try Upwell
.PHONY: spark
spark: $(SPARK_READY)  ## install what fills by Spark need into .venv

$(SPARK_READY): requirements/spark.lock $(RUN_READY)
	@$(PY) -c 'import pyspark' 2>/dev/null || \
		echo "installing PySpark into $(VENV) (once: pip builds it from 460 MB of sources, which takes some minutes)"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/spark.lock
	@touch $@

.PHONY: run demo screen
run: $(RUN_READY) $(if $(BY_SPARK),spark)  ## a MySQL, the sample, the proxy, and what it gains; serves until Ctrl-C: ARGS=--quick, ARGS=--table for all queries
	@$(COMPILE)
	@exec $(PY) -m examples.lobsters.run $(if $(BY_SPARK),--spark) $(ARGS)

demo: $(RUN_READY) $(if $(BY_SPARK),spark)  ## the same, but ends after the first screen; SPARK=on fills every cache by Spark
	@$(COMPILE)
	@exec $(PY) -m examples.lobsters.run --demo $(if $(BY_SPARK),--spark) $(ARGS)

screen: $(RUN_READY) $(if $(BY_SPARK),spark)  ## run the demo and put its first screen into README.md; SPARK=on: what filling by Spark prints
	@$(COMPILE)
	@UPSTREAM= $(PY) -m examples.lobsters.run --demo --readme $(if $(BY_SPARK),--spark) $(ARGS)

.PHONY: pictures
pictures: $(DEV_READY)  ## take the pictures of the page at / for README and docs anew: five minutes: ARGS='--seconds 60'
	@$(COMPILE)
	@UPSTREAM= $(PY) -m integration.http.pictures $(ARGS)

##@ to work on it
.PHONY: dev
dev: $(DEV_READY)  ## set up .venv for working on the project

# On all cores, with a process more where tests wait for MySQL (JOBS=n: n processes; JOBS=0: in one, for a debugger), on
# a server that was given one after the other; `conftest.py` says how the tests are spread. A test that hangs is ended
# with a traceback of every thread. Kept bytecode saves each process the rewriting of all assertions.
PYTEST = PYTHONDONTWRITEBYTECODE= $(PY) -m pytest
SPREAD = -n $(or $(JOBS),$(if $(UPSTREAM),1,auto)) --timeout=300 --durations=12 --durations-min=2

# Every package, and what shows that the whole works: hits, misses and changes over MySQL's protocol, and a transaction.
PARTS = $(addprefix tests/,$(SERVED))
SHOWN = integration/protocol/test_mysql_reads.py integration/transactions/test_mysql_repeatable_read.py

.PHONY: quick test unit
quick: $(DEV_READY)  ## in a minute: the quick unit tests of every package, and a few tests on a real MySQL
	@UPSTREAM_TEST="$$UPSTREAM" $(PYTEST) $(PARTS) $(SHOWN) $(SPREAD) --quick $(ARGS)

test: $(DEV_READY)  ## the tests that a change reaches, on a real MySQL; ALL=1: every one: JOBS=processes ARGS='path -k name'
	@UPSTREAM_TEST="$$UPSTREAM" $(PYTEST) $(SPREAD) $(if $(ALL),,--reached) $(ARGS)

unit: $(DEV_READY)  ## the tests that need no MySQL: SEED=n draws other random cases
	@$(PYTEST) tests $(SPREAD) $(if $(SEED),--hypothesis-seed=$(SEED)) $(ARGS)

.PHONY: compiled interpreted compiled-check
compiled: $(DEV_READY)  ## compile the modules that changes of rows go through, in place, by mypyc: a minute
	@$(PY) hatch_build.py compiled

interpreted: $(DEV_READY)  ## take the compiled modules away
	@$(PY) hatch_build.py interpreted

compiled-check: $(DEV_READY)  ## build the compiled wheel, and run the tests that reach compiled code on what it brings
	@$(PY) -m integration.packaging.compiled_check $(ARGS)

##@ campaigns, of any length
.PHONY: sim mutants
sim: $(DEV_READY)  ## random schedules of the engine against a model of MySQL: SEED=n STEPS=n JOBS=n
	@$(PY) -m tests.simulation.run $(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS)) $(if $(JOBS),--jobs $(JOBS)) $(ARGS)

mutants: $(DEV_READY)  ## each rule of consistency switched off: the simulation must find out
	@$(PY) -m tests.simulation.catch $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: differential
differential: $(DEV_READY)  ## random queries and writes compared with MySQL: SECONDS=n FIRST=seed, or one SEED=n
	@UPSTREAM_TEST="$$UPSTREAM" UPWELL_DIFFERENTIAL_SECONDS=$(or $(SECONDS),60) UPWELL_DIFFERENTIAL_SEED=$(SEED) \
		UPWELL_DIFFERENTIAL_FIRST=$(or $(FIRST),1) $(PY) -m pytest -s integration/planner_truth/test_differential.py $(ARGS)

.PHONY: hammer
hammer: $(RUN_READY)  ## everything at once on a real MySQL, restarts and kills included: SECONDS=n SEED=n
	@$(COMPILE)
	@$(PY) -m integration.hammer.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

.PHONY: hammer-vitess
hammer-vitess: $(DEV_READY)  ## likewise on a real Vitess, whose shards are split and merged: SECONDS=n SEED=n (needs Go)
	@$(COMPILE)
	@$(PY) -m integration.vitess.hammer $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

.PHONY: oracle oracle-mutants
oracle: $(DEV_READY)  ## random queries over the whole language compared with MySQL: SECONDS=n SEED=n ROUNDS=n ARGS='--keep DIR'
	@$(COMPILE)
	@$(PY) -m integration.oracle.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(ROUNDS),--rounds $(ROUNDS)) $(ARGS)

oracle-mutants: $(DEV_READY)  ## faults planted in planner, operators and types: the oracle must find each within five minutes
	@$(PY) -m integration.oracle.mutants $(ARGS)

.PHONY: by-index
by-index: $(DEV_READY)  ## each kind of comparison by an index and without: what differs must be refused
	@UPSTREAM_TEST="$$UPSTREAM" UPWELL_WHOLE=1 $(PYTEST) integration/planner_truth/test_by_index_constants.py integration/planner_truth/test_by_index_columns.py $(ARGS)

.PHONY: by-variable
by-variable: $(DEV_READY)  ## every function under every session variable: what changes an answer must be a need: SEED=n
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.settings.by_variable $(SEED)

.PHONY: literals
literals: $(DEV_READY)  ## parameters whose type no column tells: every form with literals and bound values of each kind: SEED=n
	@UPSTREAM_TEST="$$UPSTREAM" UPWELL_WHOLE=1 UPWELL_LITERALS_SEED=$(or $(SEED),1) $(PYTEST) integration/prepared/test_untyped_parameters.py $(ARGS)

.PHONY: mysql-suite
mysql-suite: $(DEV_READY)  ## MySQL's own tests through the proxy: SECONDS=n SEED=n TESTS='subselect json/*' ARGS=--prepared
	@$(COMPILE)
	@$(PY) -m integration.mysql_suite.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(if $(TESTS),--tests '$(TESTS)') $(ARGS)

.PHONY: bindings
bindings: $(DEV_READY)  ## sequences of prepared executions with values of every type compared with MySQL: SECONDS=n SEED=n
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.prepared.bindings $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: lists
lists: $(DEV_READY)  ## random lists compared with MySQL: rows, and how often the order is another: SECONDS=n SEED=n
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.lists.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: sessions
sessions: $(DEV_READY)  ## random scripts of several sessions in lock step with MySQL: SECONDS=n SEED=n, ARGS=--one
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.sessions.session_scripts $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: applications
applications: $(DEV_READY)  ## WordPress, MediaWiki, Redmine, Ghost, Django with and without Upwell, side by side: ARGS='--only wordpress --size n --pages n --rounds n --pace 1 --shapes'
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.applications.run $(ARGS)

.PHONY: driver-suites
driver-suites: $(DEV_READY)  ## the suites of PyMySQL, mysqlclient, go-sql-driver at MySQL and through Upwell: ARGS='--only pymysql'
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.driver_suites.run $(ARGS)

.PHONY: orm-statements
orm-statements: $(DEV_READY)  ## what object-relational mappers send, through Upwell: ARGS='--only django --each'
	@$(COMPILE)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.orm_statements.run $(ARGS)

.PHONY: fuzz
fuzz: $(DEV_READY)  ## nonsense and broken connections against all that speaks MySQL's protocol: SECONDS=n SEED=n
	@$(PY) -m tests.fuzz.run $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) $(ARGS)

.PHONY: nightly
nightly: $(DEV_READY)  ## the long campaigns one after the other, a line for each: MINUTES=n SEED=n
	@$(COMPILE)
	@$(PY) -m tests.support.nightly $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED)) $(ARGS)

##@ figures
.PHONY: bench
bench: $(DEV_READY)  ## every figure, measured on this machine and judged by benchmarks/budgets.toml: ARGS='--only miss'
	@$(COMPILE)
	@$(PY) -m benchmarks.run $(ARGS)

.PHONY: compare
compare: $(DEV_READY)  ## processor time of each path against an earlier commit, in pairs: BASE=commit ONLY=hits,passes PAIRS=n
	@$(COMPILE)
	@$(PY) -m benchmarks.compare --base '$(BASE)' $(if $(ONLY),--only '$(ONLY)') $(if $(PAIRS),--pairs $(PAIRS)) $(ARGS)

##@ checks, and files that are made
.PHONY: lint types format
lint: $(DEV_READY) types  ## style, types, and that imports go downward only
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/lint-imports

types: $(DEV_READY)  ## mypy, strict
	@$(VENV)/bin/mypy

format: $(DEV_READY)  ## rewrite the sources in the project's style
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .

.PHONY: goldens docs site collations
site: $(DEV_READY)  ## the documents as a site in build/site, which is read and searched from its folder
	@$(PY) -m tests.support.site
	@echo "build/site/index.html"

collations: $(DEV_READY)  ## compare every collation whole with MySQL's, and keep that it was done
	@UPSTREAM_TEST="$$UPSTREAM" UPWELL_WHOLE=1 $(PYTEST) integration/planner_truth/test_collations_mysql.py $(ARGS)
	@UPSTREAM_TEST="$$UPSTREAM" $(PY) -m integration.planner_truth.checked_collations

goldens: $(DEV_READY)  ## rewrite the golden plans; review the difference
	@$(PY) -m tests.support.goldens --write
	@$(PY) -m tests.support.parser_nodes --write

docs: $(DEV_READY)  ## rewrite docs/supported_sql.md from the list of refusals and the golden plans
	@$(PY) -m tests.support.supported_sql

.PHONY: vitess
vitess: $(DEV_READY)  ## build the Vitess that tests run against, with Go: some minutes, once
	@$(PY) -m integration.vitess.built

.PHONY: proto
proto: $(DEV_READY)  ## generate upwell/v1 and vstream/vitess_pb2 from protos/ (a clean tree gives no diff)
	@$(PY) -m protos.generate

.PHONY: wheel-check release check
wheel-check: $(DEV_READY)  ## build the wheel and try it in a fresh environment
	@$(PY) -m integration.packaging.wheel_check

release: $(DEV_READY)  ## check, build, try and tag the version of pyproject.toml; publishes nothing: VERSION=n where to be sure
	@$(PY) -m integration.packaging.release $(VERSION)

check: ALL = 1
check: lint test wheel-check compiled-check  ## what continuous integration runs: every test, lint, the wheel, compiled code
