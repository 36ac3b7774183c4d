# The two commands a newcomer types are `make run` and `make test`; each sets up what it needs.

VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= $(shell nproc)

.PHONY: run test lint docs bench clean doctor.pyz

run: $(READY)  ## Train the digits example with 2 processes, and say what came out.
	$(BIN)/stoker train examples/digits/run.yaml --processes 2 output=runs/digits-$$(date +%Y%m%d-%H%M%S)

test: $(READY)  ## Rules and tests.
	scripts/services
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

lint: $(READY)  ## Types.
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(READY)  ## The documentation as pages in site/.
	$(BIN)/mkdocs build --strict

bench: $(READY)  ## Measure beside the peers; installs them.
	$(BIN)/pip install --quiet -e '.[bench]'
	$(BIN)/python benchmarks/cli_start.py
	$(BIN)/python benchmarks/engine_overhead.py
	$(BIN)/python benchmarks/exporter.py

doctor.pyz:  ## The doctor in one file for a bare server; needs nothing but Python 3.11.
	python3 scripts/build_doctor_pyz.py $@

clean:  ## Remove what the other targets made, but no runs.
	rm -rf $(VENV) site doctor.pyz .pytest_cache .ruff_cache .hypothesis

$(READY): pyproject.toml scripts/setup
	scripts/setup $(VENV)
	touch $@
