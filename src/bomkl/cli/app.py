"""All commands by name; `bomkl.cli.added` finds those of other packages."""

from __future__ import annotations

from typing import Annotated

import typer

from bomkl.cli.added import Commands
from bomkl.cli.commands.convert import convert
from bomkl.cli.commands.evaluate import evaluate
from bomkl.cli.commands.inspect import inspect
from bomkl.cli.commands.merge import merge
from bomkl.cli.commands.predict import predict, score
from bomkl.cli.commands.report import report
from bomkl.cli.commands.service import push, replay, serve
from bomkl.cli.commands.train import train
from bomkl.cli.options import HELP_FLAGS, command

app = typer.Typer(
    name="bomkl",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=HELP_FLAGS,
)
app.command("train")(command(train))
app.command("predict")(command(predict))
app.command("score")(command(score))
app.command("eval")(command(evaluate))
app.command("report")(command(report))
app.command("inspect")(command(inspect))
app.command("merge")(command(merge))
app.command("convert")(command(convert))
app.command("serve")(command(serve))
app.command("push")(command(push))
app.command("replay")(command(replay))


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
