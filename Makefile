# Every target does its own set-up: a virtual environment in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# Without bytecode every process would compile its libraries again.
unexport PYTHONDONTWRITEBYTECODE
JOBS   ?= 2
# What make oldest tries, as commands or paths.
PYTHONS ?= python3.11 python3.12 python3.13

PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist loadfile
# What needs other libraries or a browser has targets of its own.
CORE   := --ignore tests/parity --ignore tests/browser

.PHONY: demo test slow networks parity torch-parity browser lint docs package \
	oldest campaign graph bench bench-torch results clean

demo: $(VENV)/.core
	rm -rf runs/demo
	$(BIN)/softqd run lp-easy --out runs/demo

test: $(VENV)/.dev
	$(PYTEST) $(CORE) -m "not (slow or networks)"
	@echo "Left out: make slow (longer runs, the examples), make networks (pretrained ones"
	@echo "and their files), make parity (pyribs and others), make torch-parity, and"
	@echo "make browser (the report page in chromium). .ci/run runs them all."

# Published numbers, runs that are killed, examples, properties of whole runs.
slow: $(VENV)/.dev
	$(PYTEST) $(CORE) -m "$(or $(MARKED),slow)" tests

# Pretrained networks, small ones with random weights; their files, readers, downloads.
networks: $(VENV)/.dev
	$(PYTEST) $(CORE) -m networks tests

# Comparisons with other libraries, and a notebook in a real kernel.
parity: $(VENV)/.parity
	$(PYTEST) -m "parity and not torch_parity" tests/parity

# Comparisons with PyTorch, and of CLIP with transformers on random weights; one process,
# as importing them takes longer than the tests.
torch-parity: $(VENV)/.torch
	$(BIN)/pyright --pythonpath $(BIN)/python -p tests/typing/torch.json
	$(BIN)/python -m pytest -m torch_parity tests/parity

# The report page in Debian's chromium (apt-get install chromium chromium-driver).
browser: $(VENV)/.browser
	$(BIN)/python -m pytest -rs -m browser tests/browser

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict
	$(BIN)/python docs/check_site.py site

# Build sdist and wheel, look into them, try the wheel in an environment of its own.
package: $(VENV)/.package
	$(BIN)/python scripts/package.py

# The lowest versions that pyproject.toml allows, on several Pythons; by hand.
oldest: $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile "uv>=0.5"
	JOBS=$(JOBS) $(BIN)/python scripts/oldest.py $(VENV)/oldest $(PYTHONS)

# Kills, inputs at random, full disks: at most 40 minutes; by hand and nightly.
SEED  ?= 0
SHARE ?= 1
campaign: $(VENV)/.dev
	PYTHONPATH=tests $(BIN)/python -m campaign --jobs $(JOBS) --seed $(SEED) --share $(SHARE)

# Rooms of the package: files, lines, and who imports whom.
graph: $(VENV)/bin/python
	$(BIN)/python scripts/graph.py

# Ratios measured in one run; by hand, never in CI.
bench: $(VENV)/.parity
	$(BIN)/python benchmarks/squad_speed.py
	$(BIN)/python benchmarks/score_variance.py
	$(BIN)/python benchmarks/cvt_speed.py
	$(BIN)/python benchmarks/image_speed.py
	$(BIN)/python benchmarks/baseline_speed.py
	$(BIN)/python benchmarks/workers_speed.py

# SQUAD on a problem in PyTorch against torch alone; by hand.
bench-torch: $(VENV)/.torch
	$(BIN)/python benchmarks/torch_speed.py

# Rebuild docs/results.md and its figures from results/*.json.
results: $(VENV)/.core
	$(BIN)/python -m softqd.paper.results results docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev]"
	touch $@

$(VENV)/.parity: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev,parity]"
	touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev,browser]"
	touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --no-compile -e ".[dev,torch-parity]"
	touch $@

$(VENV)/.package: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile "build>=1.2"
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --no-compile -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) dist runs site .pytest_cache .ruff_cache
