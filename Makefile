# Everything a developer or a data steward needs to try, test and build understudy.
# The targets make their own virtual environment in .venv; nothing is installed outside it.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Worker processes of the test runner, and any further arguments for it: make test PYTEST_ARGS="-k ledger"
WORKERS ?= 2
PYTEST_ARGS ?=
# Each worker keeps to its core: small matrices divided among all cores spend most of their time waiting for them.
ONE_THREAD = OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
# What Python has compiled is kept, whatever the environment says: workers and commands would compile it anew, each time.
KEEP = PYTHONDONTWRITEBYTECODE=
# FULL=1 runs everything; without it the tests marked "full" are left out.
FULL ?=
# PROVE=1 adds every combination to the replay and to the sampled audits; make prove sets it.
PROVE ?=
# Processor time for the proving ground, and where its results are kept by seed: a later run adds to them.
MINUTES ?= 20
PROVING ?= proving-results
DEMO_OUT ?= demo-output
# Extras of pyproject.toml that the tests use; with FULL=1 all of them (Spark and numpyro are large), so that nothing is left out.
comma := ,
EXTRAS ?= dev,$(if $(FULL),all$(comma)crosscheck,stat$(comma)infer$(comma)report$(comma)serve$(comma)postgres$(comma)openid)
# One mark per set of extras: FULL=1 after a plain run installs what is missing.
DEV_MARK = $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))

# pip names each package as it comes; the rest of its talk and its warnings are left out, its errors are not.
# --editable: a change in src/ needs no new installation; only a change in pyproject.toml does.
PIP_INSTALL = $(BIN)/python -m pip install --disable-pip-version-check --no-input --progress-bar off --editable
PIP_PROGRESS = 2> >(sed -u '/^WARNING: /d' >&2) | sed -un 's/^Collecting \([^ ]*\).*/  \1/p'

.PHONY: help demo test oldest prove prove-little papers coverage lint format docs bench dist clean check-python

help: ## Show this list
	@echo "make targets:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
	  printf '%-13s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.installed-package ## The whole story on generated data: plan, release, refusal, measure, attack, infer, report, a map, and an answer confirmed on the data
	@echo "understudy demo all --out $(DEMO_OUT)"
	@$(BIN)/understudy demo all --out "$(DEMO_OUT)" --overwrite

test: $(DEV_MARK) ## Run the tests (FULL=1: all of them, the long ones too)
	@echo "pytest with $(WORKERS) workers$(if $(FULL), (everything), (FULL=1 adds the long tests))"
	@FULL="$(FULL)" PROVE="$(PROVE)" $(ONE_THREAD) $(KEEP) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(PYTEST_ARGS)

oldest: | check-python ## Run the tests with the oldest versions of the dependencies that pyproject.toml allows
	@$(PYTHON) tools/oldest.py > $(VENV)-oldest.txt
	@PIP_CONSTRAINT="$(CURDIR)/$(VENV)-oldest.txt" $(MAKE) --no-print-directory test VENV=$(VENV)-oldest

prove: ## Replay every method on neighbouring tables and audit its noise; then fresh settings for MINUTES=20 of processor time
	@$(MAKE) --no-print-directory test FULL=1 PROVE=1 PYTEST_ARGS="tests/replay tests/spark/test_replay.py tests/conformance/test_sampled_audit.py --dist worksteal"
	@$(BIN)/python benchmarks/proving run --minutes "$(MINUTES)" --folder "$(PROVING)"
	@$(BIN)/python benchmarks/proving page --folder "$(PROVING)" --out "$(PROVING)/proving.md"
	@echo "what was found: $(PROVING)/proving.md"

prove-little: $(DEV_MARK) ## A minute of the proving ground on fresh small settings; fails if a valid answer is far off or anything breaks
	@$(BIN)/python benchmarks/proving run --minutes 1 --most-records 3000 --folder "$(PROVING)" --strict

papers: $(DEV_MARK) ## Compute again the numbers that papers printed (FULL=1: the long computations too)
	@$(BIN)/understudy reproduce $(if $(FULL),--full,--quick)

coverage: $(DEV_MARK) ## Say how much of src and papers the tests run: at least 90 of 100 lines, of privacy/ at least 98 (FULL=1 counts everything)
	@FULL="$(FULL)" $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --cov --cov-report= $(PYTEST_ARGS)
	@$(BIN)/coverage report --skip-covered --fail-under=90
	@$(BIN)/coverage report --include='src/understudy/privacy/*' --fail-under=98

lint: $(DEV_MARK) ## Check style and types: ruff and strict mypy
	@echo "ruff check, ruff format --check, mypy --strict"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(DEV_MARK) ## Rewrite the sources in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

docs: $(DEV_MARK) ## Build the documentation into site/
	@echo "mkdocs build --strict"
	@$(BIN)/mkdocs build --strict 2>&1 | sed '/^INFO /d'  # --quiet would hide the warnings that strict counts
	@echo "open site/index.html"

bench: $(DEV_MARK) ## Run every benchmark in benchmarks/ and print its table
	@for script in benchmarks/bench_*.py; do \
	  [ -e "$$script" ] || { echo "there are no benchmarks in benchmarks/"; break; }; \
	  echo "== $$script"; $(BIN)/python "$$script"; done

# The time in the files of an archive: that of the last commit, so that the same commit gives the same bytes.
dist: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1580601600)
dist: | check-python ## Build wheel and sdist, the same bytes every time, and the list of what they consist of (dist/)
	@$(PYTHON) -m venv "$(VENV)-build"
	@echo "installing the build packages of packaging/lock.txt"
	@sed -n '/^# needed to build it/,$$p' packaging/lock.txt > "$(VENV)-build/lock.txt"
	@$(VENV)-build/bin/python -m pip install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps --requirement "$(VENV)-build/lock.txt"
	@rm -rf dist
	@$(VENV)-build/bin/python -m hatchling build --target sdist --target wheel
	@$(PYTHON) tools/sbom.py packaging/lock.txt dist/*.whl > dist/understudy.cdx.json.partial
	@mv dist/understudy.cdx.json.partial "$$(ls dist/*.tar.gz | sed 's/\.tar\.gz$$/.cdx.json/')"
	@cd dist && sha256sum *.whl *.tar.gz *.cdx.json > SHA256SUMS && cat SHA256SUMS

clean: ## Remove what the targets made: .venv, caches, site/, demo output
	@rm -rf "$(VENV)" "$(VENV)-build" "$(VENV)-oldest" "$(VENV)-oldest.txt" "$(DEMO_OUT)" site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src papers tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "removed the virtual environment, caches and built files"

check-python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "$(PYTHON) was not found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "$(PYTHON) is $$($(PYTHON) --version 2>&1). understudy needs Python 3.11 or newer; name one: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(BIN)/python: | check-python
	@echo "making the virtual environment $(VENV)"
	@$(PYTHON) -m venv "$(VENV)" || { rm -rf "$(VENV)"; \
	  echo "the virtual environment could not be made. On Debian or Ubuntu: apt-get install python3-venv" >&2; exit 2; }

$(VENV)/.installed-package: pyproject.toml | $(BIN)/python
	@echo "installing understudy and what it needs (some minutes the first time)"
	@$(PIP_INSTALL) ".[evaluate,report,serve]" $(PIP_PROGRESS)
	@touch $@

$(DEV_MARK): pyproject.toml | $(BIN)/python
	@echo "installing understudy with everything the tests need (some minutes the first time)"
	@$(PIP_INSTALL) ".[$(EXTRAS)]" $(PIP_PROGRESS)
	@touch $@ $(VENV)/.installed-package
