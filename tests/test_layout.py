"""The shape of the tree: small packages, small files of tests, and a reference of all that is public."""

import pkgutil
import re
from pathlib import Path

import pytest

import bomkl

ROOT = Path(__file__).parents[1]
COMMANDS = {"cli", "report", "serve"}  # docs/cli.md, docs/reports.md and docs/serving.md describe them


def test_no_package_has_more_than_14_modules():
    packages = [path.parent for path in (ROOT / "src").rglob("__init__.py")]
    sizes = {package: len([*package.glob("[!_]*.py")]) for package in packages}
    assert len(sizes) > 20
    assert {package: size for package, size in sizes.items() if size > 14} == {}


def test_no_file_of_tests_has_more_than_500_lines():
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "tests").rglob("*.py")}
    assert {name: count for name, count in lines.items() if count > 500} == {}


@pytest.mark.skipif(not (ROOT / "docs").is_dir(), reason="the documentation is not part of this installation")
def test_the_reference_has_every_public_module_and_nothing_private():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    listed = re.findall(r"^::: bomkl\.(\S+)$", pages, re.MULTILINE)
    assert len(listed) == len(set(listed)) > 20
    assert [name for name in listed if "._" in f".{name}"] == []
    public = {module.name for module in pkgutil.iter_modules(bomkl.__path__) if not module.name.startswith("_")}
    assert public - {name.split(".")[0] for name in listed} == COMMANDS
