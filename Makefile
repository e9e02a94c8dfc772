# `make demo` and `make test` are all that a newcomer needs; each sets up what it uses.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One marker per set of packages: the demo does not wait for torch.
BASE := $(VENV)/.base
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
# Two test workers on two cores: linear algebra must not start threads of its own.
QUIET := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

.PHONY: help demo test test-slow test-hostile test-kill test-browser test-tools test-store docs check format bench bench-embed bench-scale bench-dask bench-train bench-train-images bench-review crowd defaults fsr mutants own-model peers results screenshots stale clean

help:
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(BASE): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	@touch $@

$(DEV): $(BASE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

$(DOCS): $(BASE)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: $(BASE)  ## find wrong labels in a real data set, and say where to look
	$(BIN)/kspr demo

test: $(DEV)  ## set up, check style and types, run all tests but the slow ones
	$(MAKE) --no-print-directory check
	$(QUIET) $(BIN)/python -m pytest -n 2

test-slow: $(DEV)  ## the statistical checks that need more time
	$(QUIET) $(BIN)/python -m pytest -n 2 -m slow

test-hostile: $(DEV)  ## 5,000 damaged inputs of every kind; KSPR_HOSTILE_SEED chooses others
	KSPR_HOSTILE_CASES=5000 $(QUIET) $(BIN)/python -m pytest -n 2 tests/hostile/test_fuzz.py

test-kill: $(DEV)  ## 100 kills at any moment: the next start finishes with the same result
	$(QUIET) $(BIN)/python -m pytest -vv -m kill tests/hostile

test-browser: $(DEV)  ## report and review page in a real browser; installs Debian's chromium and axe-core where missing
	@test -x /usr/bin/chromium || (apt-get update -q && apt-get install -qy chromium)
	@test -d .browser/node_modules/axe-core || npm install --silent --no-save --prefix .browser axe-core@4
	$(QUIET) $(BIN)/python -m pytest -m browser

# A place of their own: label-studio-sdk wants an older numpy, FiftyOne a hundred more packages.
TOOLS := .venv-tools
test-tools:  ## what Label Studio and FiftyOne are given, read by these tools themselves
	@test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet --editable . fiftyone hypothesis label-studio-sdk pytest
	$(QUIET) $(TOOLS)/bin/python -m pytest -rs tests/runs/test_annotation_files_tools.py

# The stand-in for S3 brings thirty packages, and wants an older dateutil than pandas has here.
STORE := .venv-store
test-store: $(DEV)  ## a selection on a cluster from files of an object store on loopback
	@test -x $(STORE)/bin/python || $(PYTHON) -m venv $(STORE)
	$(STORE)/bin/python -m pip install --quiet 'moto[server]'
	$(QUIET) $(BIN)/python -m pytest -rs tests/runs/test_cluster.py -k object_store

docs: $(DOCS)  ## the documentation as a site in docs/_build/html; runs every example, needs no network
	$(QUIET) $(BIN)/sphinx-build --fail-on-warning --keep-going --nitpicky --quiet -d docs/_build/doctrees docs docs/_build/html
	@echo "open docs/_build/html/index.html"

check: $(DEV)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(DEV)  ## speed, memory and peers; writes docs/speed.md
	$(BIN)/python benchmarks/speed.py

bench-scale: $(DEV)  ## large data and very many classes; resumable; writes docs/large-data.md
	$(BIN)/python benchmarks/scale.py

bench-dask: $(DEV)  ## one and two workers against one process; resumable; for docs/clusters.md
	$(BIN)/python benchmarks/clusters.py

stale: $(DEV)  ## list the pages whose numbers are older than the code that they measure
	$(BIN)/python benchmarks/stale.py

bench-embed: $(DEV)  ## images and texts to features, against plain PyTorch; a few minutes; writes docs/speed.md
	$(BIN)/python benchmarks/embedding.py

bench-train: $(DEV)  ## heads on the shared features, every noise and method; resumable, under an hour
	$(BIN)/python benchmarks/train_head.py

bench-train-images: $(DEV)  ## whole networks on a subset of CIFAR-10; resumable, under 90 minutes
	$(BIN)/python benchmarks/train_images.py

bench-review: $(DEV)  ## the review page on 50,000 images: start, and from a key to the next row
	$(BIN)/python benchmarks/review.py

defaults: $(DEV)  ## the comparison that chose the defaults; writes docs/defaults.md
	$(BIN)/python benchmarks/defaults.py

fsr: $(DEV)  ## is the error rate kept? all controls and peers on known noise; writes docs/error-rate.md
	$(BIN)/python benchmarks/fsr.py

crowd: $(DEV)  ## several labels a row, beside CROWDLAB; resumable; writes docs/several-labels.md
	$(BIN)/python benchmarks/crowd.py

own-model: $(DEV)  ## probabilities of several models, beside cleanlab's filters; resumable; writes docs/own-model.md
	$(BIN)/python benchmarks/probabilities.py

peers: $(DEV)  ## this method and its peers on the same data, a quarter of an hour; for docs/results.md
	$(BIN)/python benchmarks/peers.py

screenshots: $(DEV)  ## the pictures of report and review page in README and docs, by Debian's chromium
	$(QUIET) $(BIN)/python benchmarks/screenshots.py

mutants: $(DEV)  ## changes core, selectors and runs at random places, and counts what the tests notice
	$(QUIET) $(BIN)/python benchmarks/mutants.py

results: $(DEV)  ## docs/results.md from the runs of `kspr reproduce` in benchmarks/results/reproduced
	$(BIN)/python benchmarks/results.py

clean:  ## remove what the Makefile made
	rm -rf $(VENV) docs/_build docs/gallery docs/commands .pytest_cache .mypy_cache .ruff_cache
