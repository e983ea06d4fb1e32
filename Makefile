# Every target makes or refreshes .venv by itself, from a lock with hashes, with python3 and pip alone.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready
# What the floor of coverage is measured by: it doubles a test's time, so not by all tests.
PROTOCOL_TESTS := tests/unit/protocol tests/golden/test_vectors.py tests/property/test_frames.py
ONLY ?=
ON ?=
FUZZ_SECONDS ?= 300
FLEETS ?= 5
FLEET_GROUPS ?= 800

.PHONY: help demo docs faults suites truth test lowest spark-versions lint format typecheck bench fuzz sanitize lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

demo: $(STAMP) ## Run a cluster, a client and some groups, and show what happens
	@$(BIN)/python examples/demo.py

test: $(STAMP) ## Run every check and every test
	@tools/check-java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest --quiet --cov --cov-report=term:skip-covered $(PROTOCOL_TESTS)
	$(BIN)/pytest --numprocesses=3 --dist=loadscope

sanitize: $(STAMP) ## Test the compiled code under the address and undefined-behaviour sanitizers
	tools/test-sanitized

lowest: $(STAMP) ## Run unit tests with the lowest allowed version of each dependency
	tools/test-lowest

spark-versions: $(STAMP) ## Compare PySpark 4.0, 4.1 and 4.2 with the installed one (0.7 GB each, cached)
	$(BIN)/python -m tests.spark.spark_versions

lint: $(STAMP) ## Check style, imports and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

format: $(STAMP) ## Rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

typecheck: $(STAMP) ## Check types (mypy strict)
	$(BIN)/mypy

bench: $(STAMP) ## Measure beside the peers (ONLY=protocol for one part)
	$(BIN)/python -m bench $(ONLY)

docs: $(STAMP) ## Write the generated parts of the documentation
	$(BIN)/python tools/generate_docs.py

faults: $(STAMP) ## Run the fault campaign and the property tests for long
	COTERIE_EXAMPLES=20 COTERIE_KILLS=1000 $(BIN)/pytest tests/faults tests/property tests/compat/test_admin_client_faults.py

suites: $(STAMP) ## Run the test suites of Go clients on our cluster (ON=kafka: on Apache Kafka)
	COTERIE_REQUIRE_CLIENTS=1 COTERIE_SUITES=whole COTERIE_SUITES_ON=$(ON) \
	  $(BIN)/pytest tests/compat/test_foreign_suites.py

fuzz: $(STAMP) ## Fuzz the decoders for FUZZ_SECONDS (300)
	$(BIN)/python -m fuzz.run --seconds $(FUZZ_SECONDS)

truth: $(STAMP) ## Hold the marts of FLEETS (5) simulated fleets of FLEET_GROUPS (800) against their truth
	COTERIE_FLEETS=$(FLEETS) COTERIE_FLEET_GROUPS=$(FLEET_GROUPS) \
	  $(BIN)/pytest tests/spark/test_marts_simulated.py tests/spark/test_marts_burrow.py

lock: $(STAMP) ## Resolve the dependencies anew into requirements/
	$(BIN)/uv pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 \
	  --extra dev --no-emit-package coterie --custom-compile-command "make lock" \
	  --output-file requirements/dev.lock pyproject.toml

clean: ## Remove everything that was made
	rm -rf fuzz/corpus .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage build dist bench/results.json src/*.egg-info src/coterie/_native.*so
	find src tests bench fuzz examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is written last: an install that was cut short is done again.
$(STAMP): requirements/dev.lock pyproject.toml tools/make-venv $(wildcard src/native/*)
	@PYTHON="$(PYTHON)" tools/make-venv
