"""The command line reference of the documentation, from the code: ``python -m bomkl.cli.reference > docs/cli.md``."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from bomkl.cli import options, signals
from bomkl.cli.added import added, added_names
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
| {options.EXIT_FAILED} | bad data or a bad model |
| {options.EXIT_USAGE} | wrong options or settings |
| {_STOPPED} | stopped by a closed terminal (SIGHUP), Ctrl-C or SIGTERM |
| {options.EXIT_BROKEN_PIPE} | the program that reads the output has stopped, such as `head` |

You can also put settings into a TOML file and name it with `--config`. Command-line options override the file:

```toml
algorithm = "BOMKC(SPA)"
budget = 250

[parameters]
"learner.eta" = 0.2

[rows]
label = "species"
```
"""

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
    sections = [_section(name, function) for name, function in _commands()]
    groups = [_group_section(title, group) for title, group in _GROUPS.items()]
    return "\n".join([_HEAD, *sections, *groups])


def _commands() -> Iterator[tuple[str, Callable[..., Any]]]:
    for command in app.registered_commands:
        assert command.callback is not None
        yield f"bomkl {command.name}", command.callback
    for name in added_names():
        commands = added(name).registered_commands
        for command in commands:
            assert command.callback is not None
            ending = f" {command.name or command.callback.__name__}" if len(commands) > 1 else ""
            yield f"bomkl {name}{ending}", command.callback


def _section(name: str, function: Callable[..., Any]) -> str:
    usage, rows, shared = [name, "[OPTIONS]"], [], []
    hints = get_type_hints(function, include_extras=True)
    groups = {
        (name, get_args(hint)[1].help): title
        for title, group in _GROUPS.items()
        for name, hint in get_type_hints(group, include_extras=True).items()
    }
    for parameter in inspect.signature(function).parameters.values():
        if hints[parameter.name] is typer.Context:
            continue
        kind, about = get_args(hints[parameter.name])[:2]
        if isinstance(about, ArgumentInfo):
            usage.append(_argument(parameter.name, kind, about, parameter.default))
        elif parameter.default is inspect.Parameter.empty:
            usage.append(f"{_flags(parameter.name, about)[0]} {about.metavar or options.value_name(kind)}")
        if title := groups.get((parameter.name, about.help)):
            shared.append(title)
        else:
            rows.append(_row(parameter.name, kind, about, parameter.default))
    lines = [f"## {name}", "", inspect.cleandoc(function.__doc__ or ""), "", "```text", " ".join(usage), "```", ""]
    lines += _table(rows)
    if shared:
        links = [f"[{title.lower()}](#{title.lower().replace(' ', '-')})" for title in dict.fromkeys(shared)]
        lines += [f"It also takes the {', the '.join(links[:-1])}{' and the ' * (len(links) > 1)}{links[-1]}.", ""]
    return "\n".join(lines)


def _group_section(title: str, group: type[Any]) -> str:
    hints = get_type_hints(group, include_extras=True)
    rows = []
    for each in fields(group):
        kind, about = get_args(hints[each.name])[:2]
        rows.append(_row(each.name, kind, about, each.default))
    return "\n".join([f"## {title}", "", *_table(rows)])


def _table(rows: list[str]) -> list[str]:
    return ["| option | meaning | default |", "|---|---|---|", *rows, ""] if rows else []


def _row(name: str, kind: Any, about: Any, default: Any) -> str:
    is_argument = isinstance(about, ArgumentInfo)
    spelled = f"`{_argument(name, kind, about, default)}`" if is_argument else _spelling(name, kind, about)
    return f"| {spelled} | {about.help or ''} | {_default(default, about)} |"


def _argument(name: str, kind: Any, about: ArgumentInfo, default: Any) -> str:
    shown = f"{about.metavar or name.upper()}{'...' * (get_origin(kind) is list)}"
    return shown if default is inspect.Parameter.empty else f"[{shown}]"


def _flags(name: str, about: OptionInfo) -> list[str]:
    return _given_flags(about) or [f"--{name.replace('_', '-')}"]


def _given_flags(about: OptionInfo) -> list[str]:
    # Typer keeps the first positional argument of Option as its default, also where it is a flag.
    return [each for each in (about.default, *(about.param_decls or ())) if isinstance(each, str)]


def _spelling(name: str, kind: Any, about: OptionInfo) -> str:
    flags = _flags(name, about)
    if kind is not bool:
        flags = [f"{flag} {about.metavar or options.value_name(kind)}" for flag in flags]
    elif not _given_flags(about):
        flags.append(f"--no-{flags[0][2:]}")
    return ", ".join(f"`{flag}`" for flag in flags)


def _default(value: Any, about: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(about.show_default, str):
        return about.show_default
    if value is None or value is False:
        return ""
    return "yes" if value is True else f"`{value}`"


if __name__ == "__main__":
    print(reference(), end="")
