"""All commands by name."""

from __future__ import annotations

from typing import Annotated

import typer

from bomkl.cli.convert import convert
from bomkl.cli.inspect import inspect
from bomkl.cli.learn import evaluate, train
from bomkl.cli.merge import merge
from bomkl.cli.options import HELP_FLAGS, command, name_values
from bomkl.cli.predict import predict, score
from bomkl.cli.service import push, replay, serve

app = typer.Typer(
    name="bomkl",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_FLAGS,
)
app.command("train")(command(train))
app.command("predict")(command(predict))
app.command("score")(command(score))
app.command("eval")(command(evaluate))
app.command("inspect")(command(inspect))
app.command("merge")(command(merge))
app.command("convert")(command(convert))
app.command("serve")(command(serve))
app.command("push")(command(push))
app.command("replay")(command(replay))

_PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def _show_version(asked: bool) -> None:
    if asked:
        from bomkl import __version__

        print(f"bomkl {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version.")
    ] = False,
) -> None:
    """Online multiple kernel learning on a budget: one pass, bounded memory, no kernel to choose."""


@app.command("demo")
def demo() -> None:
    """Compare the paper's algorithms on a real data set, in seconds."""
    from bomkl.demo import run_demo

    run_demo()


@app.command("reproduce", context_settings=_PASSED_ON, add_help_option=False)
def reproduce(context: typer.Context) -> None:
    """Reproduce the tables and the figure of the paper."""
    from bomkl.cli.experiments import reproduce as run

    real = typer.Typer(add_completion=False, rich_markup_mode=None, context_settings=HELP_FLAGS)
    real.command()(name_values(run))
    real(args=context.args, prog_name="bomkl reproduce")


@app.command("datasets", context_settings=_PASSED_ON, add_help_option=False)
def datasets(context: typer.Context) -> None:
    """List, fetch and locate the paper's data sets."""
    from bomkl.cli.experiments import datasets_app

    datasets_app(args=context.args, prog_name="bomkl datasets")


@app.command("bench", context_settings=_PASSED_ON, add_help_option=False)
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
    """Run a benchmark, in a clone of the repository."""
    import ast
    import os
    import sys
    from importlib import import_module
    from pathlib import Path

    known = {}
    for path in sorted(Path("benchmarks").glob("[a-z]*.py")):
        about = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        if about.startswith(title := f"`bomkl bench {path.stem}`: "):  # others are parts of them
            known[path.stem] = about.removeprefix(title)
    if what in ("--help", "-h"):
        typer.echo(context.get_help() + "\n\nBenchmarks here:" * bool(known))
        for name, text in known.items():
            typer.echo(f"  {name:<{max(map(len, known))}}  {text}")
        raise typer.Exit
    if what not in known:
        places = (
            f"It may be one of {list(known)}."
            if known
            else "Run it in a clone of the repository, which holds benchmarks/."
        )
        typer.echo(f"bomkl: error: there is no benchmark {what!r} here. {places}", err=True)
        raise typer.Exit(2)
    sys.path.insert(0, os.getcwd())
    sys.argv = [f"bomkl bench {what}", *context.args]
    import_module(f"benchmarks.{what}").main()
