# Each target prepares what it needs. `make help` lists them.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2
UV := uv==0.13.9

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  \1\t\2/' | expand -t 12

setup: $(READY) ## Create .venv with the locked dependencies

# Nothing is fetched again until the lock or the project file changes.
$(READY): requirements-dev.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	@# uv takes seconds where pip takes a minute; pip serves where uv can't be had.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(UV) && \
		$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements-dev.lock || \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY) ## Two conversations become facts, and facts a block
	@$(BIN)/usermem demo

run: $(READY) ## Serve the API with a worker inside, on an embedded Postgres
	$(BIN)/usermem serve

test: $(READY) ## All tests that need no key and no server
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m "not soak and not live and not browser"

fuzz: $(READY) ## Hold a running service against its whole OpenAPI document, for minutes
	FUZZ_EXAMPLES=50 $(BIN)/pytest -n0 tests/test_fuzz.py

soak: $(READY) ## The long and the statistical tests
	$(BIN)/pytest -m soak

browser: $(READY) ## The user's page in Chromium, whole: every look, by keyboard, without scripts
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; }
	$(BIN)/pytest tests/web

bench: $(READY) ## Measure recall: speed, growth, retrieval, quality (BENCH="--full --locomo PATH")
	$(BIN)/python -m benchmarks.run $(BENCH)

check: $(READY) ## Format, lint, types, the direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

fix: $(READY) ## Format and mend what a tool can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(READY) ## Resolve the dependencies anew
	$(BIN)/uv pip compile --quiet pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -o requirements.lock
	$(BIN)/uv pip compile --quiet pyproject.toml --group dev --constraint requirements.lock --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url -o requirements-dev.lock

image: ## Build the container image, start it and ask whether it is ready
	.ci/image

.PHONY: help setup demo run test fuzz soak browser bench check fix lock image
