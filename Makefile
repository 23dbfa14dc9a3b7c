# make check runs every check there is, with the default tier of the tests; make full runs the full tier, make everything all.
PYTHON ?= python
# The root folders are sub-packages of `retrograd`; links lay them out as mypy expects them, made anew for files that came or went.
TREE = build/tree/retrograd

FORCE:

.PHONY: check format lint types test full everything mutants docs site examples benchmark clean

check: lint types docs examples test

format:
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

lint:
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) tools/check_prose.py
	$(PYTHON) tools/lines.py

types: $(TREE)
	MYPYPATH=build/tree $(PYTHON) -m mypy -p retrograd --cache-dir build/mypy
	$(PYTHON) -m mypy tools --cache-dir build/mypy-tools --ignore-missing-imports

$(TREE): FORCE
	rm -rf build/tree && mkdir -p $(TREE)
	for f in src/retrograd/*; do ln -s ../../../$$f $(TREE)/; done
	for d in isa assembler simulator hdl compiler examples benchmarks; do ln -s ../../../$$d $(TREE)/; done

docs:
	$(PYTHON) -m retrograd.isa.manual --check docs/reference
	$(PYTHON) -m retrograd.catalogue --check docs/reference
	$(PYTHON) tools/derive_constants.py --check isa/constants.py
	$(PYTHON) tools/analyse_energy.py --check docs
	$(PYTHON) -m retrograd.benchmarks.reporting --check docs
	$(PYTHON) -m retrograd.hdl.bus.register_documents --check docs/reference
	$(PYTHON) tools/measure_cycles.py --check docs
	$(PYTHON) tools/make_notebooks.py --check docs/notebooks
	$(PYTHON) tools/measure_scaling.py --check docs
	$(PYTHON) tools/count_gates.py --check docs
	$(PYTHON) tools/compare_gates.py --check docs
	$(PYTHON) tools/compare_machines.py --check docs

# Needs the extra `docs`; the pages are in build/site/html.
site:
	$(PYTHON) tools/make_site.py

examples:
	$(PYTHON) tools/run_examples.py README.md docs/*.md docs/guides/*.md docs/tutorials/*.md docs/reference/*.md examples/*.md

test:
	$(PYTHON) -m pytest

full:
	$(PYTHON) -m pytest --full

everything:
	$(PYTHON) -m pytest --everything
	$(PYTHON) -m pytest --hypothesis-profile random
	$(PYTHON) tools/run_examples.py --slow docs/coprocessor.md
	$(MAKE) mutants

mutants:
	$(PYTHON) tools/long_runs/mutants.py --each 3

benchmark:
	$(PYTHON) -m retrograd.cli.main bench --peers numpy,numba,enzyme,casadi,jax --report docs

clean:
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
