"""What the documentation shows works: its code runs, its reference is that of the code, its links lead somewhere."""

import doctest
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.slow import slow_but
from tools import cli_reference
from typer.testing import CliRunner

from bomkl.cli import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ELSEWHERE = {"adding-an-algorithm.md", "adding-a-data-set.md"}  # tests/lab/experiments/test_adding_pages.py runs them
# these start servers, or learn for seconds
SLOW = ("brokers.md", "serving.md", "streams.md", "drift.md", "index.md", "reports.md", "river.md", "scaling.md")
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.glob("*.md") if page.name not in ELSEWHERE)]
CODE = re.compile(r"^```(python|pycon|sh)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NEEDS = {
    "river.md": "river",
    "onnx.md": "onnxruntime",
    "serving.md": "fastapi",
    "scaling.md": "dask.dataframe",
    "brokers.md": "nats",
    "queries.md": "duckdb",
}
PROGRAMS = {"brokers.md": "nats-server"}
PATH = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the documentation is not part of this installation")


def on_free_ports(page: str) -> str:
    """The text of a page with other ports for its services, because something else may use those that it names."""
    with socket.socket() as one, socket.socket() as other:
        for probe, port in ((one, "8471"), (other, "8472")):
            probe.bind(("127.0.0.1", 0))
            page = page.replace(port, str(probe.getsockname()[1]))
    return page


def run_pycon(text: str, names: dict[str, Any], page: str) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    test = doctest.DocTestParser().get_doctest(text, names, page, page, 0)
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=flags)
    runner.run(test, out=report.append, clear_globs=False)
    assert runner.failures == 0, "".join(report)
    names.update(test.globs)


def run_shell(text: str) -> None:
    """Run plain commands of bomkl in this process, which is faster, and all else in a shell."""
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith("bomkl ") and not set("|<>$*") & set(line):
            result = CliRunner().invoke(app, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}: {result.output}"
        else:
            done = subprocess.run(
                ["bash", "-ec", line], env={**os.environ, "PATH": PATH}, capture_output=True, text=True, timeout=300
            )
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page", slow_but([page for page in PAGES if page.name not in SLOW], PAGES), ids=lambda page: page.name
)
def test_the_code_of_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name in NEEDS:
        pytest.importorskip(NEEDS[page.name])
    if page.name in PROGRAMS and shutil.which(PROGRAMS[page.name], path=PATH) is None:
        pytest.skip(f"{PROGRAMS[page.name]} is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    text = on_free_ports(page.read_text(encoding="utf-8"))
    for match in CODE.finditer(text):
        kind, code = match.groups()
        line = text[: match.start()].count("\n") + 1
        if kind == "python":
            exec(compile("\n" * line + code, str(page), "exec"), names)
        elif kind == "pycon":
            run_pycon(code, names, page.name)
        elif page.parent == DOCS:
            run_shell(code)


_UNENDED = r"^ +.*\n(?=[^\s)\]}])"  # for an interactive interpreter, a block ends with an empty line


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=lambda page: page.name)
def test_the_first_lines_can_be_pasted_into_the_prompt(page: Path) -> None:
    first = CODE.search(page.read_text(encoding="utf-8"))
    assert first is not None
    assert re.findall(_UNENDED, first[2], re.MULTILINE) == []


def test_the_quick_start_can_be_pasted_into_the_prompt() -> None:
    for match in CODE.finditer((DOCS / "quickstart.md").read_text(encoding="utf-8")):
        assert re.findall(_UNENDED, match[2], re.MULTILINE) == []


def test_no_text_tells_to_install_from_an_index_that_has_no_bomkl() -> None:
    folders = ("src", "docs", "examples", "lab")
    texts = [path for folder in folders for kind in ("*.py", "*.md") for path in (ROOT / folder).rglob(kind)]
    assert len(texts) > 200
    wrong = re.compile(r"pip3? install (-\S+ )*['\"]?bomkl\b")
    assert [path.name for path in [ROOT / "README.md", *texts] if wrong.search(path.read_text(encoding="utf-8"))] == []


def test_the_command_line_reference_is_that_of_the_code() -> None:
    pytest.importorskip("bomkl_lab")  # the page has its commands, too
    written = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert written == cli_reference.reference(), "run: python tools/cli_reference.py > docs/cli.md"


@pytest.mark.parametrize("command", ["train", "predict", "eval", "inspect", "convert"])
def test_the_reference_knows_every_option(command: str) -> None:
    shown = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", shown.split("Options:")[1])) - {"--help"}
    assert len(flags) > (0 if command == "inspect" else 10)
    missing = {flag for flag in flags if f"`{flag}" not in cli_reference.reference()}
    assert missing == set()


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [*ROOT.glob("*.md"), *ROOT.glob("examples/*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path, _, anchor = target.partition("#")
            place = page.parent / path if path else page
            if "://" in path or path.startswith("mailto:"):
                continue
            generated = "reference" in place.parts  # mkdocs checks those
            if not place.exists() or (anchor and not generated and anchor not in anchors(place)):
                broken.append(f"{page.name}: {target}")
    navigation = re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    broken += [f"mkdocs.yml: {page}" for page in navigation if not (DOCS / page).exists()]
    assert broken == []


def test_files_that_the_architecture_names_exist() -> None:
    named = re.findall(r"`((?:src|cpp|lab|tests)/[^`]*)`", (DOCS / "architecture.md").read_text(encoding="utf-8"))
    assert len(named) > 40
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = [page.relative_to(DOCS).as_posix() for page in [*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")]]
    assert [page for page in pages if f"{page}\n" not in navigation] == []


@pytest.mark.parametrize(
    ("name", "shown_only", "count"),
    [
        ("peers", ["--seeds", "0"], 2),
        pytest.param("drift", ["--methods"], 1, marks=pytest.mark.slow),
        pytest.param("unseen", ["--methods"], 1, marks=pytest.mark.slow),
        pytest.param("defaults", ["--streams"], 2, marks=pytest.mark.slow),
    ],
)
def test_tables_of_benchmarks_are_those_of_the_stored_rows(name, shown_only, count):
    pytest.importorskip("bomkl_lab")
    (rows,) = DOCS.glob(f"results/{name}.jsonl*")
    command = [sys.executable, "-m", "bomkl", "bench", name, *shown_only, "--rows", str(rows)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    tables = {table.split("|")[1]: table.strip() for table in re.findall(r"(?:^\|.*\n)+", printed, re.MULTILINE)}
    pages = [page.read_text(encoding="utf-8") for page in (DOCS / "results.md", ROOT / "README.md")]
    shown = {title: table for title, table in tables.items() if any(f"\n|{title}|" in page for page in pages)}
    assert len(shown) == count
    assert [title for title, table in shown.items() if not any(f"\n\n{table}\n\n" in page for page in pages)] == []
