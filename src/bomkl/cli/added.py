"""Commands that other installed packages add, through entry points of the group ``bomkl.commands``.

Such an entry point names a `typer.Typer` of one command, or of several.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from bomkl.cli.messages import EXIT_USAGE, fail

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_OF_THE_LAB = ("bench", "datasets", "reproduce")


class Commands(TyperGroup):
    """The commands of bomkl, and after them those of other packages, which are looked for only if they are needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_entry_points()]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name; one that cannot be had tells why when it is run."""
        own: Any = super().get_command(ctx, cmd_name)
        if own is not None:
            return _without_types(own)
        if cmd_name in _entry_points():
            try:
                command = typer.main.get_command(_added(cmd_name))
            except Exception as error:  # of code that is not ours: the other commands must not suffer
                return _failing(cmd_name, f"the command cannot be loaded: {type(error).__name__}: {error}")
            command.name = cmd_name
            return _without_types(command)
        if cmd_name in _OF_THE_LAB:
            return _failing(cmd_name, "the command is part of bomkl-lab: pip install ./lab in a clone of bomkl")
        return None


def _without_types(command: Any) -> Any:
    """Keep the help from showing Python's types, such as ``<list[str]>``, beside the names of arguments."""
    for each in command.params:
        if each.param_type_name == "argument":
            each.display_type_rich = lambda ctx: None
    for each in getattr(command, "commands", {}).values():
        _without_types(each)
    return command


def _added(name: str) -> typer.Typer:
    app = _entry_points()[name].load()
    if not isinstance(app, typer.Typer):
        raise TypeError(f"{_entry_points()[name].value} is not a typer.Typer")
    return app


@cache
def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in sorted(entry_points(group="bomkl.commands"), key=lambda each: each.name)}


def _failing(name: str, message: str) -> Any:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)

    @app.command(
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
        add_help_option=False,
        help=f"({message})",
    )
    def run(context: typer.Context) -> None:
        fail(f"{name}: {message}", EXIT_USAGE)

    command = typer.main.get_command(app)
    command.name = name
    return command
