# Two commands matter: `make reproduce` makes every result and the paper, `make test` checks the code.
# Both first set up what they need. Programs are called as `.venv/bin/python -m NAME` and by relative paths only, so
# that the folder's own path may hold spaces.

SCALE ?= desk
# nproc would obey OMP_NUM_THREADS, which is about the threads of one process
CORES ?= $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || getconf _NPROCESSORS_ONLN)
# The first Python 3.11 that runs; seen from inside a virtual environment, the one which that was made from.
PYTHON ?= $(shell for p in python3.11 python3 python; do $$p -c 'import sys; \
	print(sys._base_executable) if sys.version_info[:2] == (3, 11) else sys.exit(1)' 2>/dev/null && break; done)
PYTEST_ARGS ?=
SNAKEMAKE_ARGS ?=
TARGETS ?= all
# of the scale, all or some: ENVS=push_t METHODS=lewm,tdjepa SEEDS=3072
part := $(if $(ENVS),envs=$(ENVS)) $(if $(METHODS),methods=$(METHODS)) $(if $(SEEDS),seeds=$(SEEDS))

py := .venv/bin/python
# Jobs and tests start `python`, `snakemake` and `dvc` by name. One thread a process: the jobs already fill the cores,
# and the number of threads changes the last digits of a sum.
run := PATH="$(CURDIR)/.venv/bin:$$PATH" OMP_NUM_THREADS=1 $(py)
activate := echo "To use tdjepa, snakemake and dvc by name in this shell:  source .venv/bin/activate"
# modules of another Python installation must not shadow the pinned ones
unexport PYTHONPATH PYTHONHOME

.PHONY: help setup system for-tests latex reproduce rehearsal snakemake-report release test test-pipeline test-others lint clean distclean FORCE

help:
	@echo "make setup      .venv with the exact packages of requirements.lock, and LaTeX by apt-get where that is allowed"
	@echo "make reproduce  every result, table and figure and the paper, at the scale desk"
	@echo "                SCALE=smoke for a quick look, paper for a GPU cluster, CORES=n (here $(CORES)),"
	@echo "                ENVS=push_t METHODS=lewm,tdjepa SEEDS=3072 for a part of the scale,"
	@echo "                TARGETS=extras for the methods beside the run, SNAKEMAKE_ARGS=-n to see what would run"
	@echo "make rehearsal  the scale paper in small, from files of the released layout to the PDF (docs/rehearsal.md)"
	@echo "make release    one archive with checkpoints, cards and rows; tdjepa restore takes it back in"
	@echo "make snakemake-report  Snakemake's own report of a run"
	@echo "make test       lint, then all tests; PYTEST_ARGS=\"-m 'not pipeline'\" for the quick ones"
	@echo "make lint       ruff, the layers of the code, snakefmt and snakemake's own linter"
	@echo "make clean      removes caches and data and results of smoke and rehearsal, never those of the others"
	@echo "make distclean  clean, and .venv too"
	@echo "PYTHON=...      the Python 3.11 to build .venv from (found: $(or $(PYTHON),none))"

setup: system .venv/.package
	@$(if $(filter setup,$(MAKECMDGOALS)),$(activate))

system:
	@workflow/system_packages.sh

# A virtual environment cannot be moved: if the folder was, build it again.
ifneq ($(shell cat .venv/.packages 2>/dev/null),$(CURDIR))
.venv/.packages: FORCE
endif

# From scratch each time: what a killed install left behind cannot be trusted, and the stamp is written last.
.venv/.packages: requirements.lock
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null || { echo \
		"Python 3.11 is needed, found '$(PYTHON)': install it, or name it with make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Installing the pinned Python packages into .venv (3 GB, 3 to 5 minutes)"
	@rm -f $@
	@"$(PYTHON)" -m venv --clear .venv
	@$(py) -m pip install -qq --disable-pip-version-check -r requirements.lock
	@$(py) -m pip check --quiet
	@echo "$(CURDIR)" > $@

# setuptools comes from the lock, so building the package fetches nothing.
.venv/.package: .venv/.packages pyproject.toml workflow/pyproject.toml requirements.in
	@$(py) -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e . -e ./workflow
	@touch $@

# Stops before the long work, not after it: no LaTeX, no paper.
latex:
	@workflow/system_packages.sh required

reproduce: latex setup
	$(run) -m snakemake $(TARGETS) --workflow-profile workflow/profiles/default --cores $(CORES) --config scale=$(SCALE) $(part) $(SNAKEMAKE_ARGS)
	@$(activate)

# What the scale paper meets, in small: released files from a server that lives as long as the run, then a released checkpoint.
mirror := build/mirror
released := results/rehearsal/released
rehearsal: latex setup
	$(run) -m tdjepa mirror --scale rehearsal --out $(mirror) --run $(py) -m snakemake all extras \
		--workflow-profile workflow/profiles/default --cores $(CORES) --configfile $(mirror)/params.yaml \
		--config scale=rehearsal $(SNAKEMAKE_ARGS)
	$(run) -m tdjepa import --from $(mirror)/quentinll/lewm-pusht/resolve/main --env push_t --scale rehearsal \
		--out $(released)/epoch_02.safetensors
	$(run) -m tdjepa evaluate --env push_t --method lewm --seed 0 --scale rehearsal --checkpoints $(released) \
		--out $(released)/rows.parquet

# Tables, figures and rollouts of a run with the jobs that made them, by Snakemake itself: one archive with report.html.
snakemake-report: setup
	@mkdir -p build
	$(run) -m snakemake all pictures --workflow-profile workflow/profiles/default --config scale=$(SCALE) --report build/report-$(SCALE).zip

# One file to attach to a release; `tdjepa restore --from FILE` takes it back in.
release: setup
	@mkdir -p build
	$(run) -m tdjepa release --scale $(SCALE) --out build/tdjepa-$(SCALE).tar.zst

# Without a Chromium the tests of the web page are skipped, without SLURM those of the cluster. A person's machine is not
# given SLURM's daemons unasked: that is workflow/system_packages.sh slurm.
for-tests:
	@workflow/system_packages.sh browser $(if $(TDJEPA_NO_SKIPS),slurm)

# Two processes of about the same length, each with a core. One has the tests that share the small run of the DAG
# (tests/conftest.py) and those of SLURM, the other all the rest. Both run to their end; what the former says is shown when it
# is done.
second_process := $(addprefix tests/test_,checksums.py cluster_profile.py determinism.py extending.py faults.py slurm.py)
test: for-tests lint
ifeq ($(strip $(PYTEST_ARGS)),)
	@$(MAKE) --no-print-directory --keep-going --jobs=2 test-others test-pipeline
else
	$(run) -m pytest $(PYTEST_ARGS)
endif

# The quick tests run first, so that what they find shows at once. Then come the other DAG tests.
test-others:
	@$(run) -m pytest -m "not pipeline"; quick=$$?; \
		$(run) -m pytest -m pipeline $(filter-out $(second_process),$(wildcard tests/test_*.py)); slow=$$?; \
		[ $$quick -eq 0 ] && [ $$slow -eq 0 ]

test-pipeline:
	@mkdir -p build; trap : INT; \
		$(run) -m pytest -m pipeline $(second_process) >build/test-pipeline.log 2>&1; \
		status=$$?; cat build/test-pipeline.log; exit $$status

lint: setup
	$(py) -m ruff check .
	$(py) -m ruff format --check .
	$(py) .venv/bin/lint-imports --no-cache --no-logo
	$(py) -m snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(run) .ci/snakemake_lint.py

clean:
	rm -rf data/smoke results/smoke data/rehearsal results/rehearsal build .pytest_cache .ruff_cache .hypothesis .snakemake/log .snakemake/tdjepa
	find src tests workflow -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv src/tdjepa.egg-info workflow/tdjepa_workflow.egg-info
