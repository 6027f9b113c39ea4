# Two commands on a fresh machine: `make demo` and `make test`. Each does all the set-up; the second time it starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: help demo test test-all test-cluster check format bench examples docs clean

help:
	@echo "make demo      the whole journey on a built-in model: quote, kill, resume, posterior, report"
	@echo "make test      the test suite (minutes)"
	@echo "make test-all  with full counts and long sweeps"
	@echo "make test-cluster  real Slurm, MPI, network namespaces and executors (Debian: slurm-wlm munge openmpi-bin iproute2; root)"
	@echo "make check     ruff (format, lint), pyright, spelling and style"
	@echo "make bench     benchmarks, as ratios within one run"
	@echo "make examples  the notebooks of examples/ that show CPU times and whose code has changed, executed (minutes each)"
	@echo "make docs      the documentation site, into site/, and its tests in a browser"

# A half-made environment is thrown away: .ready is written last.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "thrifty needs Python 3.11 or newer; set PYTHON=python3.11")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (a few minutes, once)"
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt torch==2.13.0
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	@touch $@

demo: $(READY)
	@$(ONE_THREAD) $(BIN)/python -m thrifty.study.demo

test: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 -m "not slow and not cluster"

test-all: $(READY)
	$(ONE_THREAD) $(BIN)/python -m pytest -q -n 2 -m "not cluster"

# What cannot be installed is said here and skipped there, with its reason. Other libraries leave files open: not our fault.
test-cluster: $(READY)
	@$(BIN)/python tools/install_extra.py cluster
	$(ONE_THREAD) $(BIN)/python -m pytest -q -rs -m cluster -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning tests/cluster

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/python tools/check_words.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[all,dev,bench,examples]"
	@for script in benchmarks/*.py; do echo "== $$script"; $(ONE_THREAD) $(BIN)/python $$script || exit 1; done

# Notebooks with CPU times: no second run repeats them, so that tests compare code and packages instead of outputs.
examples: $(READY)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[all,dev,examples]"
	$(ONE_THREAD) $(BIN)/python tools/notebook_pages.py --stale

docs: $(READY)
	@$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e ".[all,dev,docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	$(BIN)/python -m pytest -q tests/docs/test_site.py
	@echo "site/index.html"

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
