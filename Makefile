# Everything on a fresh machine with Python 3.11+:  make demo | make test
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUNTIME := $(VENV)/.runtime
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install demo kept-demo test lint types unit coverage test-slow faults soak ci-docs test-browser test-bucket test-cluster test-range test-neighbours test-judges test-docs docs wheel sbom bench analyses house clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(RUNTIME): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "probekit needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q -c constraints.txt torch
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[demo]'
	@touch $@

$(STAMP): $(RUNTIME)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[dev,docs,demo,gguf,adapters,sentencepiece,tensorboard,wandb,quantize]'
	@touch $@

install: $(STAMP)  ## create .venv with pinned versions

demo: $(RUNTIME)  ## extract, train, plot on real text with a real model, in under two minutes
	$(BIN)/probekit demo

kept-demo: $(STAMP) demo  ## that the demo's keys, scores and marks are what they were
	$(BIN)/python -m tests.kept_demo demo

test: lint types unit  ## lint, types, import levels, tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

coverage: $(STAMP)  ## what share of lines and of branches of the package the tests run
	$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --cov probekit --cov-branch \
		--cov-report json:build/coverage.json
	$(BIN)/python -c "import json; t = json.load(open('build/coverage.json'))['totals']; \
		print(*(f'{what} {t[f\"percent_{what}_covered\"]:.2f} %' for what in ('statements', 'branches')))"

test-slow: $(STAMP)  ## the long tests: 20 kills per backend, real models and data
	$(BIN)/python -m pytest -q -m slow --timeout 3600

faults: $(STAMP)  ## two hours of kills, errors, power cuts, races, flipped bits and strange inputs
	$(BIN)/python -m tests.faults.cycles kill error power race --cycles 50
	$(BIN)/python -m tests.faults.cycles flip --cycles 200
	$(BIN)/python -m tests.faults.fuzz --inputs 100000 --keep build/fuzzed

soak: $(STAMP)  ## an hour of extraction and sweeps, with flat memory and open files
	$(BIN)/python -m tests.faults.soak --minutes 60

test-browser: $(STAMP)  ## the report page in headless Chromium; screenshots in build/screenshots
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[browser]'
	command -v chromium >/dev/null || apt-get install -y -qq chromium \
		|| echo "Chromium is not here and cannot be installed: the tests will skip."
	$(BIN)/python -m pytest -q -m browser -rs tests/page

test-bucket: $(STAMP)  ## push and pull against a real S3 server, which fails and is killed
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[bucket]'
	$(BIN)/python -m pytest -q -m bucket -rs tests/exchange

ci-docs: test-browser test-docs docs wheel  ## the report page, documents with their code, the site, and the wheel

test-cluster: $(STAMP)  ## a Ray cluster of two nodes, which loses workers and nodes, and a Slurm of one
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[ray]'
	command -v slurmctld >/dev/null || apt-get install -y -qq slurmctld slurmd slurm-client munge \
		|| echo "Slurm is not here and cannot be installed: its tests will skip."
	$(BIN)/python -m pytest -q -m cluster -rs --timeout 600 tests/cluster

test-range: $(STAMP)  ## the tests with the lowest and with the newest versions that pyproject.toml allows (14 GB)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[range]'
	$(BIN)/python tools/try_range.py lowest
	$(BIN)/python tools/try_range.py highest --python $(or $(NEWEST),3.13)

test-neighbours: $(STAMP)  ## whether probekit goes into one environment with other tools of the field
	$(BIN)/python tools/try_neighbours.py

test-judges: $(STAMP)  ## other programs read the cache and compute the same; ARGS are pytest's, MODELS a folder
	command -v h5dump >/dev/null || apt-get install -y -qq hdf5-tools
	PROBEKIT_MODELS=$(or $(MODELS),models) $(BIN)/python tools/judge.py $(ARGS)

test-docs: $(STAMP)  ## run the code of every page and notebook
	$(BIN)/python -m pytest -q -m docs -n auto --maxprocesses 4 tests/documents

docs: $(STAMP)  ## build the site of the documents in site/
	$(BIN)/python tools/site.py

wheel: $(STAMP)  ## build a wheel and try it in a fresh environment outside the checkout
	$(BIN)/python tools/try_wheel.py

sbom:  ## a bill of materials of constraints.txt, and whether pip-audit reads it; in build/
	$(PYTHON) -m venv build/sbom-tools
	build/sbom-tools/bin/python -m pip install -q cyclonedx-bom==7.5.0 pip-audit==2.10.1
	build/sbom-tools/bin/cyclonedx-py requirements constraints.txt --pyproject pyproject.toml --mc-type library \
		--output-reproducible -o build/sbom.json
	build/sbom-tools/bin/pip-audit -r constraints.txt --no-deps --disable-pip --dry-run 2>&1 \
		| grep 'would have audited' | tee build/audit.txt

bench: $(STAMP)  ## measure every speed claim; MODELS and DATA are folders (hours)
	$(BIN)/python -m pip install -q -c constraints.txt -e '.[ray]'
	$(BIN)/python benchmarks/run_all.py --models $(or $(MODELS),models) --data $(or $(DATA),data)

analyses: $(STAMP)  ## run every analysis again, from where it was; MODELS and DATA are folders (a day)
	$(BIN)/python analyses/run_all.py --models $(or $(MODELS),models) --data $(or $(DATA),data)

house: $(STAMP)  ## measure how the package is built: rooms, arrows, lines, walks
	$(BIN)/python tools/measure_house.py

clean:
	rm -rf $(VENV)
