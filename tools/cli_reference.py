"""The command line reference of the documentation, from the code: ``python tools/cli_reference.py > docs/cli.md``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import typer

from bomkl.cli import messages, options, signals
from bomkl.cli.app import app

_STOPPED = f"{signals.EXIT_HUNG_UP}, {signals.EXIT_INTERRUPTED}, {signals.EXIT_TERMINATED}"
_HEAD = f"""# Command line

With `bomkl` you learn from files and pipes, predict, measure errors and run a service, without writing Python. This
page lists all commands and their options.

Results go to standard output, everything else to standard error. Commands that read rows accept files, folders,
globs, or `-` for standard input, in any of the [formats](streams.md). `bomkl --install-completion` makes your shell
complete commands and options.

| exit code | meaning |
|---|---|
| 0 | success |
| {messages.EXIT_FAILED} | bad data or a bad model |
| {messages.EXIT_USAGE} | wrong options or settings |
| {_STOPPED} | stopped by a closed terminal (SIGHUP), Ctrl-C or SIGTERM |
| {messages.EXIT_BROKEN_PIPE} | the program that reads the output has stopped, such as `head` |

You can also put settings into a TOML file and name it with `--config`. Command-line options override the file:

```toml
algorithm = "BOMKC(SPA)"
budget = 250

[parameters]
"learner.eta" = 0.2

[rows]
label = "species"
```"""

_GROUPS: dict[str, Any] = {
    "Options for algorithms": options.AlgorithmOptions,
    "Options for rows": options.RowOptions,
    "Options for pipes": options.PipeOptions,
}


def reference() -> str:
    """Return the page, in Markdown.

    Examples
    --------
    >>> "## bomkl train" in reference()
    True
    """
    commands = dict(_commands(typer.main.get_command(app), "bomkl"))
    shared = {title: _shared(commands["bomkl train"], group) for title, group in _GROUPS.items()}
    sections = [_section(name, command, shared) for name, command in commands.items()]
    groups = [f"## {title}\n\n{_table(rows)}" for title, rows in shared.items()]
    return "\n\n".join([_HEAD, *sections, *groups]) + "\n"


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Commands of a group by their whole names; those of its groups as well."""
    if not hasattr(command, "list_commands"):
        yield name, command
        return
    context = command.context_class(command)
    for each in command.list_commands(context):
        yield from _commands(command.get_command(context, each), f"{name} {each}")


def _shared(command: Any, group: type[Any]) -> list[str]:
    names = {each.name for each in fields(group)}
    return [_row(each) for each in command.params if each.name in names]


def _section(name: str, command: Any, shared: dict[str, list[str]]) -> str:
    needed = [_spelling(each, each.opts[:1]) for each in command.params if each.required and _is_option(each)]
    arguments = [_spelling(each) for each in command.params if not _is_option(each)]
    usage = " ".join([name, "[OPTIONS]", *needed, *arguments]).replace("`", "")
    text = (command.help or "").split("\f")[0].strip()
    rows = [_row(each) for each in command.params]
    titles = [title for title, group in shared.items() if set(group) <= set(rows)]
    own = [row for row in rows if not any(row in shared[title] for title in titles)]
    parts = [f"## {name}", text, f"```text\n{usage}\n```", *[_table(own)] * bool(own)]
    if titles:
        links = [f"[{title.lower()}](#{title.lower().replace(' ', '-')})" for title in titles]
        parts.append(f"It also takes the {', the '.join(links[:-1])}{' and the ' * (len(links) > 1)}{links[-1]}.")
    return "\n\n".join(parts)


def _table(rows: list[str]) -> str:
    return "\n".join(["| option | meaning | default |", "|---|---|---|", *rows])


def _row(parameter: Any) -> str:
    return f"| {_spelling(parameter)} | {parameter.help or ''} | {_default(parameter)} |"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _spelling(parameter: Any, flags: list[str] | None = None) -> str:
    if not _is_option(parameter):
        shown = parameter.metavar or parameter.name.upper()
        shown += "..." * (parameter.nargs == -1 and not shown.endswith("..."))
        return f"`{shown}`" if parameter.required else f"`[{shown}]`"
    value = "" if parameter.is_flag else f" {parameter.metavar}"
    return ", ".join(f"`{flag}{value}`" for flag in flags or [*parameter.opts, *parameter.secondary_opts])


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if parameter.default is None or parameter.default is False:
        return ""
    return "yes" if parameter.default is True else f"`{parameter.default}`"


if __name__ == "__main__":
    print(reference(), end="")
