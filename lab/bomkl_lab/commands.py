"""The commands ``bomkl reproduce``, ``datasets`` and ``bench``; heavy imports wait until a command runs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bomkl.cli.messages import EXIT_FAILED, EXIT_USAGE
from bomkl.cli.options import HELP_FLAGS, name_values
from bomkl.cli.signals import EXIT_INTERRUPTED

if TYPE_CHECKING:
    from bomkl_lab.experiments.pipeline import Outcome

_SETTINGS: dict[str, Any] = {"add_completion": False, "rich_markup_mode": None, "context_settings": HELP_FLAGS}
reproduce_app = typer.Typer(**_SETTINGS)
datasets_app = typer.Typer(help="List, fetch and locate the paper's data sets.", no_args_is_help=True, **_SETTINGS)
bench_app = typer.Typer(**_SETTINGS)


@reproduce_app.command()
@name_values
def reproduce(
    table: Annotated[list[int] | None, typer.Option(help="Only this table: 1 or 2 (may be repeated).")] = None,
    figure: Annotated[int | None, typer.Option(help="Only this figure: 1.")] = None,
    datasets: Annotated[list[str] | None, typer.Option(help="Only these data sets, separated by commas.")] = None,
    algorithms: Annotated[list[str] | None, typer.Option(help="Only these algorithms, separated by commas.")] = None,
    runs: Annotated[
        int | None, typer.Option(help="Number of permutations of the rows.", show_default="10, with --quick 3")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Number of parallel processes.")] = 2,
    out: Annotated[Path, typer.Option(help="Folder for the results, the figures and the report.")] = Path(
        "reproduction"
    ),
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Only german, magic04 and a9a, which come with the package, with 3 permutations."),
    ] = False,
    plugin: Annotated[
        list[Path] | None, typer.Option(help="Python file that registers algorithms or data sets (may be repeated).")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed before.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
) -> None:
    """Reproduce the tables and the figure of the paper.

    Published values are shown beside them. Results that OUT/rows.jsonl already holds are not computed again, so a run
    that was stopped continues where it was.
    """
    from bomkl_lab.experiments.algorithms import load_plugin
    from bomkl_lab.experiments.pipeline import Request, prepare_folder
    from bomkl_lab.experiments.pipeline import reproduce as run
    from bomkl_lab.experiments.results import ResultsBusyError

    if figure not in (None, 1):
        _fail(f"The 'figure' parameter of reproduce must be 1. Got {figure} instead.", EXIT_USAGE)
    try:
        for file in plugin or ():
            load_plugin(file)
        request = Request(
            tuple(table or ()),
            figure == 1,
            _names("--datasets", datasets, "german,a9a"),
            _names("--algorithms", algorithms, "SPA,RBP"),
            runs,
            jobs,
            out,
            quick,
            retry_failed,
            not offline,
        )
        prepare_folder(out)
    except ValueError as error:
        _fail(str(error), EXIT_USAGE)
    try:
        outcome = run(request)
    except KeyboardInterrupt:
        message = (
            f"Stopped. {out / 'rows.jsonl'} holds every cell that was complete; the same command goes on from there."
        )
        _fail(message, EXIT_INTERRUPTED)
    except ResultsBusyError as error:
        _fail(str(error), EXIT_FAILED)
    except OSError as error:
        _fail(f"{error.filename or out}: {error.strerror or error}", EXIT_FAILED)
    show(outcome)
    if not outcome.results.rows:
        _fail("Nothing could be run: none of the data sets is here. See: bomkl datasets list", EXIT_FAILED)
    if outcome.failures:
        raise typer.Exit(EXIT_FAILED)


def show(outcome: Outcome) -> None:
    """Print the tables and what differs on stdout; remarks about the run go to stderr."""
    from bomkl_lab.experiments.document import table_as_text
    from bomkl_lab.experiments.tables import agreement_counts, as_table, differences, not_run

    emphasis = ("\x1b[1m", "\x1b[0m") if sys.stdout.isatty() else ("*", "*")
    for block in outcome.blocks:
        typer.echo(table_as_text(as_table(block), emphasis) + "\n")
    for name, (good, compared) in agreement_counts(outcome.blocks).items():
        if compared:
            typer.echo(f"{name}: {good} of {compared} agree with the paper.")
    for difference in differences(outcome.blocks):
        typer.echo(f"differs: {difference}")
    for note in not_run(outcome.blocks):
        typer.echo(f"not run: {note}")
    for text in (*outcome.results.problems, *(f"failed: {failure}" for failure in outcome.failures)):
        typer.echo(text, err=True)
    typer.echo(f"report: {outcome.report}")


@datasets_app.command("list")
def list_datasets() -> None:
    """List the data sets: size, source, and whether they are here."""
    from bomkl_lab.experiments.datasets import find_local, registry

    for spec in registry().values():
        state = "here" if find_local(spec) else {"automatic": "download", "large": "large"}.get(spec.access, "missing")
        typer.echo(f"{spec.name:12} {spec.rows:>9,} x {spec.columns:<4} {state:9} {spec.citation}")
        typer.echo(f"{'':12} scaling: {spec.scaling_note}; licence: {spec.licence}")


@datasets_app.command("fetch")
def fetch_dataset(name: Annotated[str, typer.Argument(help="Name of the data set, or all.", metavar="NAME")]) -> None:
    """Fetch a data set unless it is here, and print the path."""
    from bomkl_lab.experiments.converters import DataFileError
    from bomkl_lab.experiments.datasets import MissingDataError, fetch, get_spec, registry
    from bomkl_lab.experiments.names import UnknownNameError

    failed = False
    for each in registry() if name == "all" else (name,):
        try:
            typer.echo(str(fetch(get_spec(each))))
        except UnknownNameError as error:
            _fail(str(error), EXIT_USAGE)
        except (MissingDataError, DataFileError) as error:
            typer.echo(str(error), err=True)
            failed = True
    if failed:
        raise typer.Exit(EXIT_FAILED)


@datasets_app.command("path")
def data_path() -> None:
    """Print the folders that data sets are looked for in, first to last."""
    from bomkl_lab.experiments.datasets import data_folders

    for folder in data_folders():
        typer.echo(str(folder))


@bench_app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def bench(
    context: typer.Context,
    what: Annotated[
        str,
        typer.Argument(
            help="Name of the benchmark, such as speed, targets, peers or all. It gets all further options.",
            metavar="WHAT",
        ),
    ] = "speed",
) -> None:
    """Run a benchmark.

    Benchmarks that write pages of the documentation do so in a clone of the repository.
    """
    known = _benchmarks()
    if what in ("--help", "-h"):
        typer.echo(context.get_help() + "\n\nBenchmarks:")
        for name, text in known.items():
            typer.echo(f"  {name:<{max(map(len, known))}}  {text}")
        raise typer.Exit
    if what not in known:
        _fail(f"bomkl: error: there is no benchmark {what!r}. It may be one of {list(known)}.", EXIT_USAGE)
    sys.argv = [f"bomkl bench {what}", *context.args]
    import_module(f"bomkl_lab.benchmarks.{what}").main()


def _benchmarks() -> dict[str, str]:
    """Return the benchmarks by name, with what the first line of each says; other modules are parts of them."""
    import ast

    found = {}
    for path in sorted(Path(__file__).with_name("benchmarks").glob("[a-z]*.py")):
        about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        if about.startswith(title := f"`bomkl bench {path.stem}`: "):
            found[path.stem] = about.removeprefix(title)
    return found


def _names(option: str, values: list[str] | None, example: str) -> tuple[str, ...]:
    names = tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
    if values and not names:
        given = " ".join(map(repr, values))
        raise ValueError(
            f"{option} must hold names separated by commas, such as {example}. Got {given} instead; leave the option "
            "out to run all."
        )
    return names


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)
