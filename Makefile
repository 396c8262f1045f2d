# Every target makes its own virtual environment once and reuses it; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help install demo test tpc fuzz crash lint docs bench bench-peers clean

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SOURCES := dynq_cli tests benchmarks $(wildcard sample_data/*.py)
PYTEST_ARGS ?=
BENCH ?= --write

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dynq and its development tools into $(VENV): about 1.5 GB on disk, some two minutes"
	@$(BIN)/python -m pip install --disable-pip-version-check --editable '.[dev]'
	@touch $@

install: $(STAMP) ## the `dynq` command and the development tools, in .venv
	@echo "dynq is installed: $(BIN)/dynq --help"

demo: $(STAMP) ## the whole path on sample_data, narrated
	@$(BIN)/dynq demo

lint: $(STAMP) ## ruff and mypy --strict
	@$(BIN)/ruff check $(SOURCES)
	@$(BIN)/ruff format --check --quiet $(SOURCES) >/dev/null || \
	  { echo "some files are not formatted: run $(BIN)/ruff format $(SOURCES)"; exit 1; }
	@$(BIN)/mypy

# Kernels are compiled beside the linters, where no test waits for them. Spark's tests have processes of their own: a
# fork of one that has made large states asks for too much memory. Two, since one alone does not keep two cores busy,
# and tests one by one, since some take as long as ten others.
test: $(STAMP) ## lint, then all tests on all cores; ends with where the time went
	@tests/spark/install_postgres
	@$(BIN)/python benchmarks/environments.py tpcds
	@begin=$$(date +%s%N); \
	$(BIN)/dynq demo >/dev/null 2>&1 & \
	$(MAKE) --no-print-directory lint; wait; linted=$$(date +%s%N); \
	status=0; \
	$(BIN)/pytest --ignore=tests/spark --numprocesses=auto --dist=loadgroup --durations=15 $(PYTEST_ARGS) || status=$$?; \
	$(BIN)/pytest tests/spark --numprocesses=2 --dist=load --maxschedchunk=1 --durations=5 $(PYTEST_ARGS) || status=$$?; tested=$$(date +%s%N); \
	printf 'time: lint %d ms, tests %d ms\n' \
	  $$(( (linted - begin) / 1000000 )) $$(( (tested - linted) / 1000000 )); \
	exit $$status

HISTORIES := $(addprefix tests/engine/test_,$(addsuffix .py,random_queries aggregates correlated order positions difference ranges together)) tests/storage/test_versions.py

tpc: $(STAMP) ## the papers' TPC-H and TPC-DS queries at scale 0.1 against DuckDB after each of 24 commits
	@$(BIN)/python benchmarks/environments.py tpcds
	@DYNQ_TPC=0.1 $(BIN)/pytest -q tests/engine/test_tpc.py $(PYTEST_ARGS)

fuzz: $(STAMP) ## 20,000 random histories with 59,000 queries, 11,000 of them with aggregates, 38,000 with comparisons, 5,500 unions, against DuckDB: hours
	@DYNQ_FUZZ=80 $(BIN)/pytest -q --numprocesses=auto $(HISTORIES) $(PYTEST_ARGS)

crash: $(STAMP) ## 2,000 kills at random moments, and every way in which every call can fail: a quarter of an hour
	@DYNQ_CRASH=2000 $(BIN)/pytest -q tests/crash $(PYTEST_ARGS)
	@DYNQ_STREAM_KILLS=140 $(BIN)/pytest -q tests/spark/test_stream_kills.py $(PYTEST_ARGS)

docs: $(STAMP) ## regenerate docs/cli.md from the commands' own help
	@$(BIN)/python -m dynq_cli.cli.reference -o docs/cli.md

bench: $(STAMP) ## how quick it is, as ratios; writes benchmarks/RESULTS.md (BENCH="--quick": a small run, not written)
	@$(BIN)/python benchmarks/run.py $(BENCH)

bench-peers: $(STAMP) ## dynq beside Pathway, PyFlink and DuckDB, which it installs under benchmarks/: 2.5 GB
	@$(BIN)/python benchmarks/run.py peers --write

clean: ## remove everything these targets made
	@rm -rf $(VENV) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache benchmarks/.environments
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
