# Every target makes its own virtual environment once and reuses it; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install kernels demo test test-quick tpc fuzz crash lint docs bench bench-peers clean

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := dynq_cli tests benchmarks hatch_build.py $(wildcard sample_data/*.py)
LIBRARY := dynq_cli/engine/kernels/kernels.so
PYTEST_ARGS ?=
TESTS ?=
PIP := $(BIN)/python -m pip install --disable-pip-version-check
BUILD_KERNELS := $(BIN)/python -m dynq_cli.engine.kernels.build --skip-stale || test $$? = 4
BENCH ?= --write

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# What builds dynq comes first, so that compiling the kernels is a step of its own, and pip finds them built.
$(STAMP): pyproject.toml hatch_build.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "1/3 installing what builds dynq into $(VENV): half a minute"
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
	  > $(VENV)/build-requirements
	@$(PIP) --requirement $(VENV)/build-requirements
	@echo "2/3 building the kernels: a minute on two cores"
	@$(BUILD_KERNELS)
	@echo "3/3 installing dynq and its development tools: about 1.5 GB on disk, some two minutes"
	@$(PIP) --editable '.[dev]'
	@touch $@

# Where no linker is there is no file either, and numba compiles the kernels. Sources that are as they were when it was
# built, whatever their times are, make no new one.
$(LIBRARY): $(STAMP) $(wildcard dynq_cli/engine/kernels/*.py) dynq_cli/engine/kernels/signatures.txt
	@$(BUILD_KERNELS)
	@test ! -e $@ || touch $@

install: $(STAMP) $(LIBRARY) ## the `dynq` command and the development tools, in .venv; kernels are built again when one changed
	@echo "dynq is installed: $(BIN)/dynq --help"

demo: $(STAMP) $(LIBRARY) ## the whole path on sample_data, narrated
	@$(BIN)/dynq demo

lint: $(STAMP) ## ruff and mypy --strict: the package, tests and benchmarks
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES) >/dev/null || \
	  { echo "some files are not formatted: run $(BIN)/ruff format $(SOURCES)"; exit 1; }
	@$(BIN)/mypy

# Spark's tests run beside the others, in a process of their own that shares one Java: both cores stay busy, and no fork
# of a process that has made large states asks for too much memory. What they print comes at the end. Pytest ends with 5
# where PYTEST_ARGS leave it no test.
SPARK_TESTS := build/spark-tests.txt
test: $(STAMP) $(LIBRARY) ## lint, then all tests on all cores; ends with where the time went
	@tests/spark/install_postgres
	@tests/install_chromium
	@$(BIN)/python benchmarks/environments.py tpcds
	@mkdir -p $(dir $(SPARK_TESTS)); begin=$$(date +%s%N); status=0; \
	$(BIN)/pytest tests/spark --durations=5 $(PYTEST_ARGS) >$(SPARK_TESTS) 2>&1 & spark=$$!; \
	trap 'kill $$spark 2>/dev/null || true' EXIT; \
	$(MAKE) --no-print-directory lint; linted=$$(date +%s%N); \
	$(BIN)/pytest --ignore=tests/spark --numprocesses=auto --dist=loadgroup --durations=15 $(PYTEST_ARGS) || test $$? = 5 || status=1; \
	wait $$spark || test $$? = 5 || status=1; tested=$$(date +%s%N); cat $(SPARK_TESTS); \
	printf 'time: lint %d ms, tests %d ms\n' \
	  $$(( (linted - begin) / 1000000 )) $$(( (tested - linted) / 1000000 )); \
	exit $$status

# The inner loop: spec to engine, with a tenth of the random cases, and without what compiles or starts processes.
QUICK := tests/test_layers.py tests/spec tests/query tests/plan tests/golden tests/session tests/engine
NOT_QUICK := $(addprefix --ignore=tests/,engine/test_tpc.py engine/test_kernel_library.py engine/test_native.py session/test_estimate.py)
test-quick: $(STAMP) $(LIBRARY) lint ## lint, then the tests from spec to engine with few random cases: about two minutes
	@DYNQ_FUZZ=0.1 $(BIN)/pytest -q $(QUICK) $(NOT_QUICK) -k "not test_the_tests_notice" --numprocesses=auto --dist=loadgroup $(PYTEST_ARGS)

# Tests of everything make the list anew; `make kernels TESTS=tests/engine` adds to it what some tests reach.
RECORDING := build/kernels/recording
kernels: $(STAMP) ## the list of the kernels to build, from what all tests call, and the library; TESTS=… adds what some call
	@rm -rf build/kernels/reached; mkdir -p $(dir $(RECORDING)); touch $(RECORDING)
	@trap 'rm -f $(RECORDING)' EXIT; all=--all; \
	if [ -n "$(TESTS)" ]; then all=; $(BIN)/pytest -q $(TESTS) $(PYTEST_ARGS) || test $$? = 1; else \
	  $(BIN)/dynq demo >/dev/null 2>&1 || all=; \
	  $(BIN)/pytest -q --ignore=tests/spark --numprocesses=auto --dist=loadgroup $(PYTEST_ARGS) || all=; \
	  $(BIN)/pytest -q tests/spark --numprocesses=2 --dist=load --maxschedchunk=1 $(PYTEST_ARGS) || all=; \
	  test -n "$$all" || echo "a test failed, so lines that no test reached stay in the list"; \
	fi; \
	$(BIN)/python -m dynq_cli.engine.kernels.reached $$all
	@$(BUILD_KERNELS)

# The tests that draw random cases: their number comes from `tests/seeds`.
RANDOM = $(shell grep -lrE 'tests.(seeds|property)|DYNQ_FUZZ' tests --include='test_*.py')

tpc: $(STAMP) $(LIBRARY) ## the papers' TPC-H and TPC-DS queries at scale 0.1 against DuckDB after each of 24 commits
	@$(BIN)/python benchmarks/environments.py tpcds
	@DYNQ_TPC=0.1 $(BIN)/pytest -q tests/engine/test_tpc.py $(PYTEST_ARGS)

fuzz: $(STAMP) $(LIBRARY) ## every test with random cases, with 80 times as many of them: hours
	@DYNQ_FUZZ=80 $(BIN)/pytest -q --numprocesses=auto $(RANDOM) $(PYTEST_ARGS)

crash: $(STAMP) $(LIBRARY) ## 2,000 kills at random moments, every way in which every call can fail, a server under load and kills, and 20,000 damaged data files: half an hour
	@DYNQ_CRASH=2000 DYNQ_MUTATIONS=$${DYNQ_MUTATIONS:-20000} $(BIN)/pytest -q tests/crash $(PYTEST_ARGS)
	@DYNQ_STREAM_KILLS=140 $(BIN)/pytest -q tests/spark/test_stream_kills.py $(PYTEST_ARGS)

docs: $(STAMP) ## regenerate docs/cli.md from the commands' own help
	@$(BIN)/python -m dynq_cli.cli.reference -o docs/cli.md

bench: $(STAMP) $(LIBRARY) ## how quick it is, as ratios; writes benchmarks/RESULTS.md (BENCH="--quick": a small run, not written)
	@$(BIN)/python benchmarks/run.py $(BENCH)

bench-peers: $(STAMP) $(LIBRARY) ## dynq beside Pathway, PyFlink and DuckDB, which it installs under benchmarks/: 2.5 GB
	@$(BIN)/python benchmarks/run.py peers --write

clean: ## remove everything these targets made
	@rm -rf $(VENV) $(LIBRARY) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache benchmarks/.environments
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
