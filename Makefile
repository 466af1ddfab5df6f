# make run       set up what is needed, measure the default studies, draw their figures, say what came out
# make report    one page of all that came out, which opens offline, and an archive of what it was made from
# make check     for each save: format, lint, types, layers, unit tests, and a dry run of everything
# make test      for each change: make check, then the tests that need no root; says what it left out, and for want of what
# make test-all  make test, then what it left out, then some torture: installs what that needs, as root
# make torture   kills, damage, mistakes and faults at random, by a seed (hours); its table is in docs/reliability.md
# make lock      renew the pinned requirements (needs uv)
# make clean     remove the environments and caches; measurements and figures (results/) stay
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
MAKEFLAGS += --no-print-directory
.PHONY: run report check test test-all test-rest torture torture-short lock clean environment test-environment test-tools python

PYTHON ?= python3
CORES ?= all
UV ?= uv
VENV := .venv
PROCESSES ?= 4 # of tests; six were no faster on two cores
PROCESSES_OF_REST ?= 6 # those that `make test` leaves out mostly wait: 32 minutes on two cores, and 48 with four

# An environment is complete when its stamp is there, which is written last and named after all that it was made from.
KEY := $(shell { pwd -P; cat pyproject.toml requirements.lock; } | sha256sum | cut -c1-12)
TEST_KEY := $(shell { pwd -P; cat pyproject.toml requirements-dev.lock; } | sha256sum | cut -c1-12)

run: environment
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	ddlbench housekeeping
	ddlbench check
	snakemake --cores $(CORES) || failed=$$?
	ddlbench summary # of what has gaps too: it names their reasons
	exit $${failed:-0}

report: environment
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	snakemake --cores $(CORES) report_archive
	echo "The page: results/report.html   The archive, which  ddlbench verify results/report.zip  checks: results/report.zip"

check: test-environment
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	set -x
	ruff check --no-cache . # which module is whose depends on more files than a cache looks at
	ruff format --check .
	snakefmt --check Snakefile workflow
	lint-imports
	mypy & types=$$! # beside what takes as long together
	python workflow/lint.py # snakemake --lint
	for config in config/config.yaml config/paper.yaml; do
	  snakemake all_figures --dry-run --quiet --configfile $$config
	done
	wait $$types
	pytest tests/unit -n auto -m "not long"

test: check
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	pytest -n $(PROCESSES) -m "long or not unit" --ordinary

test-all: test test-rest torture-short

test-rest: test-environment test-tools
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	pytest -n $(PROCESSES_OF_REST) -m "long or not unit" --left-out

torture-short: SHORT = --short
torture torture-short: test-environment test-tools
	@export PATH="$$PWD/$(VENV)/bin:$$PATH"
	snakemake --cores all .environments/torch/environment.json --quiet all
	python -m benchmarks.torture $(SHORT)

environment: python
	@$(call set_up,requirements.lock,run-$(KEY),)

test-environment: python
	@$(call set_up,requirements-dev.lock,test-$(TEST_KEY),run-$(KEY))

# $(call set_up,LOCK,STAMP,STAMP THAT IT IMPLIES): an environment that lacks the stamp of `make run` is made anew, by one
# `make` at a time, which holds a lock on this file, and not under a Snakemake that works here.
define set_up
	works() { [ -e $(VENV)/$$1 ] && $(VENV)/bin/python -c 'import ddlbench' 2>/dev/null; }
	works $(2) && exit
	exec 9<>Makefile
	flock --nonblock 9 || { echo "Waiting: another make sets up $(VENV)"; flock 9 || :; } # not every file system has locks
	works $(2) && exit
	for process in $$(grep -lszE '(^|/)snakemake$$' /proc/[0-9]*/cmdline); do
	  if ! works run-$(KEY) && [ -e $(VENV) ] && [ $${process%cmdline}cwd -ef . ]; then
	    echo "$(VENV) must be made anew, for other requirements or elsewhere, and a Snakemake works with it here:" >&2
	    echo "  process $$(cut -d/ -f3 <<<$$process). Start again when that has ended." >&2
	    exit 1
	  fi
	done
	echo "Setting up $(VENV) from $(1) (once)"
	works run-$(KEY) || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	log=$(VENV)/set-up.log
	pip() { PYTHONUNBUFFERED=1 $(VENV)/bin/python -m pip --disable-pip-version-check "$$@"; }
	pip install --no-input --progress-bar off --require-hashes -r $(1) 2>&1 | tee $$log |
	  awk -v all="$$(grep -c '^[A-Za-z0-9].*==' $(1))" '
	    /^(Collecting|Processing|Requirement already satisfied)/ { if (++n % 10 == 0) { print "  " n " of " all " packages"; fflush() } }
	    /^Installing collected/ { print "  installing " n " packages (up to a minute)"; fflush() }' ||
	  { tail -n 20 $$log; echo "The set-up failed; start again, or see $$log" >&2; exit 1; }
	pip install --quiet --no-input --no-deps --no-build-isolation --editable . >>$$log 2>&1 ||
	  { tail -n 20 $$log; exit 1; }
	touch $(if $(3),$(VENV)/$(3)) $(VENV)/$(2)
endef

# Python 3.11 or newer with venv: root gets it installed, anybody else is told how.
python:
	@if ! $(PYTHON) -c 'import venv, ensurepip' 2>/dev/null; then
	  $(call install_as_root,python3 python3-venv)
	fi
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
	  echo "ddlbench needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another:" >&2
	  echo "  make run PYTHON=python3.12" >&2
	  exit 1
	}

# What tests need of this machine (tests/support/needs.py).
test-tools: test-environment
	@packages=$$($(VENV)/bin/python -m tests.support.needs)
	if [ "$$packages" ]; then $(call install_as_root,$$packages); fi
	command -v apptainer >/dev/null || command -v singularity >/dev/null || {
	  [ "$$(id -u)" = 0 ] || { echo "Missing here: apptainer. On Debian:  sudo containers/install-apptainer" >&2; exit 1; }
	  containers/install-apptainer
	}

define install_as_root
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	    echo "Installing $(1)"
	    apt-get update -qq
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $(1) >/dev/null
	  else
	    echo "Missing here: $(1). On Debian:  sudo apt-get install $(1)" >&2
	    exit 1
	  fi
endef

# PyTorch's CPU build is locked only where uv is told where it is: make lock TORCH_INDEX="--find-links FOLDER" (or an index).
# uv keeps the hashes of builds that it cannot see, and upgrades PyTorch only if its .in file asks for it.
TORCH_INDEX ?=
COMPILE = $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"
lock:
	@$(COMPILE) --upgrade pyproject.toml --group build -o requirements.lock
	$(COMPILE) --upgrade pyproject.toml --group build --extra dev -c requirements.lock -o requirements-dev.lock
	for source in containers/*/requirements-*.in tests/support/crate_validator.in; do
	  from=
	  if grep -q '^torch==.*+cpu' $$source; then
	    from="$(TORCH_INDEX)"
	    [ -n "$$from" ] || continue
	  fi
	  cd $$(dirname $$source)
	  name=$$(basename $$source .in)
	  $(COMPILE) $$from $$name.in -o $$name.txt
	  text=$$(grep '^#' $$name.in; grep -v '^#' $$name.txt)
	  echo "$$text" >$$name.txt
	  cd "$$OLDPWD"
	done

clean:
	@rm -rf $(VENV) .environments .snakemake logs .mypy_cache .ruff_cache .pytest_cache .hypothesis .benchmarks .import_linter_cache
	find src tests workflow -name __pycache__ -prune -exec rm -rf {} +
