# daba needs Python 3.11 or later, make and git; everything else is installed into .venv.

PYTHON  ?= $(shell command -v python3.11 || command -v python3)
VENV    := .venv
BIN     := $(VENV)/bin
LOCK    := requirements-dev.lock
PIP     := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(LOCK)
STAMP   := $(VENV)/.installed
TOOLS   := $(VENV)/.tools
EXTRAS  := dev
PYTHONS ?= 3.11 3.12 3.13
DEVICES ?= 8

.DEFAULT_GOAL := help
.PHONY: help setup lock demo test lint format pytest quick fuzz coverage test-pythons package docs picture \
    bench bench-ceres bench-colmap bench-scaling bench-weak clean

help:  ## Show this help
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

setup: $(TOOLS)  ## Create .venv and install daba with its development tools

define INSTALL
@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else f"daba needs Python 3.11 or later, this is {v[0]}.{v[1]}; try: make PYTHON=/path/to/python3.11")'
@$(PYTHON) -m venv $(VENV)
@$(PIP) --editable '.$(1)'
@$(BIN)/python -m compileall -q src  # pip does so only for what is not editable
@touch $(STAMP)
endef

$(STAMP): pyproject.toml $(LOCK)
	@echo "setting up $(VENV) (once) ..."
	$(call INSTALL,)

$(TOOLS): pyproject.toml $(LOCK)
	@echo "setting up $(VENV) with the development tools (once) ..."
	$(call INSTALL,[$(EXTRAS)])
	@touch $@

lock: $(STAMP)  ## Take the newest versions of everything into requirements-dev.lock
	@$(PIP) uv
	@$(BIN)/uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --upgrade \
	    --quiet --no-annotate --custom-compile-command 'make lock' --output-file $(LOCK)

demo: $(STAMP)  ## Make a synthetic city, solve it with DABA on 8 devices, leave the results in demo/
	@mkdir -p demo
	$(BIN)/daba synth demo/start.txt --scene city --cameras 100 --points 10000
	$(BIN)/daba solve demo/start.txt --method daba --devices $(DEVICES) --iterations 100 \
	    --output demo/solution.txt --output demo/solution.ply \
	    --history demo/history.json --plot demo/convergence.png --report demo/report.html

docs: $(TOOLS)  ## Make the documentation site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

test: lint pytest  ## Set up and run everything: lint, types and tests

lint: $(TOOLS)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

pytest: $(TOOLS)  ## Run the tests only
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder $(TESTS)

quick:  ## Run the tests that are quick: no Triton, no installation
	@$(MAKE) --no-print-directory pytest TESTS='-m "not slow"'

HOURS   ?= 1
fuzz: $(TOOLS)  ## Kill solves at random moments, then try mutated files of every format for HOURS
	$(BIN)/python tests/fuzz/kills.py
	$(BIN)/python tests/fuzz/campaign.py --first 1000 --seconds $$(($(HOURS) * 3600)) $(ARGS)

coverage: $(TOOLS)  ## Run the quick tests and say which lines they did not reach
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow" --cov --cov-report=term

test-pythons:  ## Run the quick tests under Python 3.11, 3.12 and 3.13, where they are here
	@for version in $(PYTHONS); do \
	    for python in python$$version $(HOME)/.pyenv/versions/$$version.*/bin/python none; do \
	        $$python -c 'import venv' 2>/dev/null && break; \
	    done; \
	    if [ $$python = none ]; then echo "Python $$version is not here, and not tested"; continue; fi; \
	    echo "Python $$version:"; \
	    $(MAKE) --no-print-directory quick PYTHON=$$python VENV=.venv-$$version \
	        EXTRAS=mpi,colmap,viewer,docs,test || exit 1; \
	done

package: $(TOOLS)  ## Make dist/, a wheel and an sdist, and try both in empty environments
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/python -m pytest -q tests/test_package.py

format: $(TOOLS)  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

picture: $(STAMP)  ## Make docs/images/scene.png, the picture of the README, again
	$(BIN)/python benchmarks/picture.py docs/images/scene.png

# Ceres takes part if it can be built; ARGS="--full" makes the paper's 1000 iterations
REAL    := $(wildcard ../shared/data/*.txt.bz2)
bench: $(STAMP)  ## The paper's evaluation: tables, figures and bench/report.html
	@$(MAKE) --no-print-directory -C benchmarks/ceres build >/dev/null 2>&1 || \
	    echo "without Ceres: benchmarks/ceres could not be built"
	$(BIN)/daba bench $(REAL) city:100:10000 orbit:60:6000 $(ARGS)

bench-ceres: $(STAMP)  ## Compare with Ceres (needs cmake, a C++ compiler and libceres-dev)
	@$(MAKE) --no-print-directory -C benchmarks/ceres build
	$(BIN)/python benchmarks/bench_ceres.py $(ARGS)

bench-colmap: $(TOOLS)  ## Compare with COLMAP's bundle adjustment on COLMAP models
	$(BIN)/python benchmarks/bench_colmap.py $(ARGS)

bench-scaling: $(STAMP)  ## Time and memory up to 5 million observations, 4 to 32 devices
	$(BIN)/python benchmarks/scaling.py --plot docs/images/scaling.png $(ARGS)

bench-weak: $(STAMP)  ## A scene that grows with its devices, and what a million cameras need
	$(BIN)/python benchmarks/weak_scaling.py --plot docs/images/weak_scaling.png $(ARGS)

clean:  ## Remove everything that make has made
	rm -rf .venv* demo bench dist site benchmarks/ceres/build benchmarks/results
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*
	find src tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
