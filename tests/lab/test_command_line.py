"""The commands of the lab among those of bomkl."""

from typer.testing import CliRunner

from bomkl.cli import app


def test_the_command_line_has_them() -> None:
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for name in ("bench", "datasets", "reproduce"):
        assert f"  {name} " in shown
    assert "--quick" in CliRunner().invoke(app, ["reproduce", "--help"]).stdout
    assert "german " in CliRunner().invoke(app, ["datasets", "list"]).stdout


def test_benchmarks_are_found_by_name() -> None:
    assert "--seeds" in CliRunner().invoke(app, ["bench", "peers", "--help"]).stdout
    listed = CliRunner().invoke(app, ["bench", "--help"]).stdout
    assert "  targets           the speed that the engine should reach" in listed
    assert "peers_methods" not in listed
    assert "--out FOLDER" in CliRunner().invoke(app, ["bench", "hard_budget", "--help"]).stdout
    assert CliRunner().invoke(app, ["bench", "hard_budget", "--rows", "9"]).exit_code == 2
    refused = CliRunner().invoke(app, ["bench", "absent"])
    assert refused.exit_code == 2
    assert "one of" in refused.stderr
