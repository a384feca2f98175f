"""The command itself: help, version, imports, and commands of other packages."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer
from tests.command_line import bomkl

from bomkl.cli import added


def test_version_and_help():
    assert bomkl("--version").stdout.startswith("bomkl ")
    shown = bomkl("--help").stdout
    for name in ("train", "predict", "eval", "inspect", "convert", "demo"):
        assert f"  {name} " in shown
    assert "--checkpoint-every" in bomkl("train", "--help").stdout


@pytest.mark.parametrize("name", ["train", "predict", "eval", "report", "inspect", "merge", "convert", "serve", "push"])
def test_the_help_of_a_command_is_plain(name):
    shown, first = bomkl(name, "--help").stdout, bomkl("--help").stdout.partition(f"  {name} ")[2].splitlines()[0]
    assert "<str>" not in shown
    assert "<list" not in shown
    assert "...}..." not in shown
    assert first.endswith(".")
    assert not first.endswith("...")


def test_the_command_line_starts_without_heavy_imports():
    check = "import sys, bomkl.cli; print([m for m in ('numpy', 'scipy', 'sklearn', 'pyarrow') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", check], capture_output=True, text=True).stdout.strip() == "[]"


@pytest.fixture
def entry_points(monkeypatch):
    """Lets other packages add commands: their entry points, by name."""

    def put(**values):
        points = {name: EntryPoint(name, value, "bomkl.commands") for name, value in values.items()}
        monkeypatch.setattr(added, "_entry_points", lambda: points)

    return put


def test_packages_add_commands(entry_points, monkeypatch):
    one, two = typer.Typer(), typer.Typer()
    one.command(help="Greet.")(lambda: print("hello"))
    two.command("left")(lambda: print("to the left"))
    two.command("right")(lambda: print("to the right"))
    monkeypatch.setattr("bomkl.cli.one", one, raising=False)
    monkeypatch.setattr("bomkl.cli.two", two, raising=False)
    entry_points(greet="bomkl.cli:one", turn="bomkl.cli:two")
    assert "  greet    Greet." in bomkl("--help").stdout
    assert bomkl("greet").stdout == "hello\n"
    assert bomkl("turn", "right").stdout == "to the right\n"


def test_the_help_of_added_commands_is_plain(entry_points, monkeypatch):
    one = typer.Typer(rich_markup_mode=None)
    one.command("left")(lambda: print("to the left"))

    @one.command("many")
    def many(names: list[str]) -> None:
        """Take names."""

    monkeypatch.setattr("bomkl.cli.one", one, raising=False)
    entry_points(turn="bomkl.cli:one")
    shown = bomkl("turn", "many", "--help").stdout
    assert "NAMES" in shown.upper()
    assert "list[" not in shown


@pytest.mark.parametrize("value", ["bomkl.absent:app", "bomkl.cli:absent", "bomkl.cli.added:added"])
def test_a_command_that_cannot_be_loaded_leaves_the_others(entry_points, value):
    entry_points(greet=value)
    assert "cannot be loaded" in bomkl("--help").stdout
    refused = bomkl("greet", "--loud", 3)
    assert refused.exit_code == 2
    assert refused.stderr.startswith("bomkl: error: greet: the command cannot be loaded: ")


@pytest.mark.parametrize("name", ["bench", "datasets", "reproduce"])
def test_without_the_lab_its_commands_say_what_to_install(entry_points, name):
    entry_points()
    assert name not in bomkl("--help").stdout
    refused = bomkl(name, "--quick", "list")
    assert refused.exit_code == 2
    expected = f"bomkl: error: {name}: the command is part of bomkl-lab: pip install ./lab in a clone of bomkl\n"
    assert refused.stderr == expected
    assert "bomkl-lab" not in bomkl("absent").stderr


def test_python_dash_m_and_completion():
    done = subprocess.run([sys.executable, "-m", "bomkl", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout[:6]) == (0, "bomkl ")
    shown = bomkl("--help").stdout
    assert "--install-completion" in shown
