# Every target sets up .venv by itself: a fresh clone needs g++, Python 3.11 or newer, and PyPI.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
SOURCES := pyproject.toml CMakeLists.txt $(wildcard cpp/*.?pp cpp/learners/*.hpp)

.PHONY: demo test lint bench docs sanitize clean

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

$(INSTALLED): $(SOURCES)
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv build
