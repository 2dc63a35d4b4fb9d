# Every target sets up what it needs in .venv; nothing but git, make and Python 3.11+ is assumed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-slow test-hidden fuzz lint check release-check bench bench-peers clean

demo: .venv/.cli          ## learn metrics on bundled data, print a table, draw a picture
	$(BIN)/mdaml demo

# With the variable scikit-learn leaves out none of its checks. The loops are compiled first, so that
# the workers do not all wait for the compiler.
WORKERS ?= 2
# Byte code is kept, whatever the environment says: the tests start Python more than a hundred times.
test test-slow test-hidden: export PYTHONDONTWRITEBYTECODE =
test: .venv/.test         ## the default test suite, doctests and README included
	$(BIN)/python -m mdaml.warm_up
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q -m "not slow" -n $(WORKERS) --dist worksteal

test-slow: .venv/.test    ## the tests that take longer: browsers, kills, studies, whole examples
	SCIPY_ARRAY_API=1 $(BIN)/python -m pytest -q -m slow

# Without all optional packages at once; then what that left out, with all of them, to see which files
# use what, and without each of them in turn.
HIDE = SCIPY_ARRAY_API=1 $(BIN)/python tools/hide_packages.py
LEFT_OUT = $(BIN)/python -m pytest -q -m "not slow" --skipped-before=.venv/skips.json
test-hidden: .venv/.test  ## the default suite as if optional packages were not installed
	MDAML_SKIPS=.venv/skips.json $(HIDE) all -- $(BIN)/python -m pytest -q -m "not slow" -n $(WORKERS) --dist worksteal
	MDAML_USED=.venv/used.json SCIPY_ARRAY_API=1 $(LEFT_OUT) -n $(WORKERS)
	$(HIDE) each -- $(LEFT_OUT) --used-before=.venv/used.json

lint: .venv/.dev          ## format, style, spelling, types, import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/codespell
	$(BIN)/mypy
	$(BIN)/lint-imports

fuzz: .venv/.test         ## attack fits, calls, files, commands and choices at random for ten minutes
	cd tests && ../$(BIN)/python -m fuzz

check: lint test test-slow  ## what continuous integration runs

release-check: .venv/.release  ## build sdist and wheel, look into them, run the tests against the installed wheel
	SCIPY_ARRAY_API=1 $(BIN)/python tools/release_check.py

bench: .venv/.test        ## speed, growth, memory, all methods side by side
	$(BIN)/python benchmarks/run.py

bench-peers: .venv/.test  ## ours against the peers, each library in an environment of its own
	$(BIN)/python benchmarks/peers/compare.py

.PHONY: docs docs-check
# All pages are read anew: a search in a site of which only some were would not find the others.
docs: .venv/.docs         ## the site, gallery included, into docs/_build/html; warnings are errors
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build/html

# Chromium of the system if there is one, otherwise: .venv/bin/playwright install chromium
docs-check: .venv/.docs-check docs  ## look at every page in a browser, wide and narrow, light and dark: errors, links, contrast, search
	$(BIN)/python docs/check_site.py docs/_build/html

clean:
	rm -rf .venv build dist docs/_build docs/auto_examples docs/api/generated docs/api/backreferences .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "mdaml needs Python 3.11 or newer; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@echo "Setting up Python in .venv: about 10 seconds, once."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip

# One stamp per set of extras: .venv/.cli, .venv/.test, .venv/.dev; and how long each takes on two cores.
SECONDS_cli = 25
SECONDS_test = 40
SECONDS_docs = 60
.venv/.%: pyproject.toml | .venv/bin/python
	@sh tools/install.sh '$*' $(or $(SECONDS_$*),60)
	@touch $@
