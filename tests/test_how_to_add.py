"""What the "how to add" pages show works: headers compile as a part of the engine, a component joins the pool.

`make how-to` also builds the headers and uses them; tests/test_docs.py runs the page on formats, and
tests/lab/experiments/test_adding_pages.py those on algorithms and data sets.
"""

import shutil
import subprocess
import sys
from importlib import util

import pytest
from tests.how_to_add import ROOT, USE_AUTO, add_to, apply_diff, blocks


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
@pytest.mark.parametrize("page", ["adding-a-learner.md", "adding-a-kernel.md"])
def test_what_a_page_adds_fits_the_engine(page, tmp_path):
    shutil.copytree(ROOT / "cpp", tmp_path / "cpp")
    (tmp_path / "src" / "bomkl").mkdir(parents=True)
    add_to(tmp_path)
    for folder, kind in (("learners", "Learner"), ("kernels", "Kernel")):
        stems = sorted(path.stem for path in (tmp_path / "cpp" / folder).glob("*.hpp"))
        lines = [f'#include "{folder}/{stem}.hpp"' for stem in stems]
        types = ", ".join(f"bomkl::{stem}::{kind}" for stem in stems)
        lines.append(f"#define BOMKL_ALL_{folder.upper()}(List) List<{types}>")
        (tmp_path / f"all_{folder}.hpp").write_text("#pragma once\n" + "\n".join(lines) + "\n", encoding="utf-8")
    header, python, *tests = [name for name, _ in blocks(page)]
    assert header.startswith("cpp/")
    assert python.startswith("src/bomkl/")
    assert tests == ["tests/lists.py"]  # nothing else is needed
    engine = '#include "budget/engine.hpp"\ntemplate class bomkl::Engine<double>;\n'
    whole = engine if "learner" in page else '#include "primitives/primitives.cpp"\n'
    (tmp_path / "whole.cpp").write_text(whole, encoding="utf-8")
    macros = ["-DBOMKL_ISA=portable", "-DBOMKL_VECTOR_BYTES=16"]
    folders = [f"-I{tmp_path}", f"-I{tmp_path / 'cpp'}"]
    command = ["g++", "-std=gnu++20", "-fsyntax-only", "-Wno-psabi", *macros, *folders, str(tmp_path / "whole.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
def test_a_function_of_the_page_fits_the_pool(tmp_path):
    shutil.copytree(ROOT / "cpp", tmp_path / "cpp")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    apply_diff(tmp_path, "adding-a-pool-kernel.md")
    (tmp_path / "whole.cpp").write_text(
        '#include "auto/features/features.hpp"\nauto* found = bomkl::automatic::AllPoolKernels::find("cauchy");\n',
        encoding="utf-8",
    )
    command = ["g++", "-std=gnu++20", "-fsyntax-only", f"-I{tmp_path / 'cpp'}", str(tmp_path / "whole.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.slow
def test_components_of_the_pages_join_the_pool(tmp_path):
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    core = util.find_spec("bomkl._core").origin
    shutil.copy(core, tmp_path / "src" / "bomkl")
    apply_diff(tmp_path, "adding-a-component.md")
    apply_diff(tmp_path, "adding-a-pool-kernel.md", most=1)  # the others need a compiler
    # -S: without the editable installation of the project itself
    packages = [path for path in sys.path if path.endswith("site-packages")]
    code = f"import sys; sys.path[:0] = [{str(tmp_path / 'src')!r}]; sys.path.extend({packages!r})\n{USE_AUTO}"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
