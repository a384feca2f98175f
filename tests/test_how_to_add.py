"""The headers of the "how to add" pages compile as a part of the engine (`make how-to` also builds and uses them)."""

import shutil
import subprocess

import pytest
from tests.how_to_add import ROOT, add_to, blocks


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
    header = blocks(page)[0][0]
    assert header.startswith("cpp/")
    engine = '#include "engine.hpp"\ntemplate class bomkl::Engine<double>;\n'
    whole = engine if "learner" in page else '#include "primitives.cpp"\n'
    (tmp_path / "whole.cpp").write_text(whole, encoding="utf-8")
    macros = ["-DBOMKL_ISA=portable", "-DBOMKL_VECTOR_BYTES=16"]
    folders = [f"-I{tmp_path}", f"-I{tmp_path / 'cpp'}"]
    command = ["g++", "-std=gnu++20", "-fsyntax-only", "-Wno-psabi", *macros, *folders, str(tmp_path / "whole.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
