# Every target does its own set-up: a virtual environment in .venv.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
JOBS   ?= 2

.PHONY: demo test parity torch-parity browser lint docs bench results clean

demo: $(VENV)/.core
	rm -rf runs/demo
	$(BIN)/softqd run lp-easy --out runs/demo

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal \
	    -m "not slow and not parity and not torch_parity and not browser"

# Comparisons with other libraries.
parity: $(VENV)/.parity
	$(BIN)/python -m pytest -m parity tests/parity

# CLIP beside transformers' PyTorch model, on random weights.
torch-parity: $(VENV)/.torch
	$(BIN)/python -m pytest -m torch_parity tests/parity/test_clip_live.py

# The report page in Debian's chromium (apt-get install chromium chromium-driver).
browser: $(VENV)/.browser
	$(BIN)/python -m pytest -rs -m browser tests/browser

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# Ratios measured in one run; by hand, never in CI.
bench: $(VENV)/.parity
	$(BIN)/python benchmarks/squad_speed.py
	$(BIN)/python benchmarks/score_variance.py
	$(BIN)/python benchmarks/cvt_speed.py
	$(BIN)/python benchmarks/image_speed.py
	$(BIN)/python benchmarks/baseline_speed.py

# Rebuild docs/results.md and its figures from results/*.json.
results: $(VENV)/.core
	$(BIN)/python -m softqd.report.results results docs

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.core: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e ".[dev]"
	touch $@

$(VENV)/.parity: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[dev,parity]"
	touch $@

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[dev,browser]"
	touch $@

$(VENV)/.torch: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet -e ".[dev,torch-parity]"
	touch $@

$(VENV)/.docs: $(VENV)/.core
	$(BIN)/python -m pip install --quiet -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) runs site .pytest_cache .ruff_cache
