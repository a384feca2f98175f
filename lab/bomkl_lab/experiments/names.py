"""Look a name up among known ones, with an error that helps."""

from __future__ import annotations

from collections.abc import Iterable

from bomkl._support.validation import did_you_mean


class UnknownNameError(ValueError):
    """A data set or algorithm that nobody registered."""


def resolve_name(kind: str, name: str, known: Iterable[str]) -> str:
    """Return the known spelling of a name, whatever its case.

    Parameters
    ----------
    kind : str
        What is being named, for the error: "data set" or "algorithm".
    name : str
        The name as the user typed it.
    known : iterable of str
        Every accepted name.

    Returns
    -------
    str
        The accepted spelling.

    Examples
    --------
    >>> resolve_name("data set", "German", ["german", "a9a"])
    'german'
    >>> resolve_name("data set", "germn", ["german", "a9a"])
    Traceback (most recent call last):
    ...
    bomkl_lab.experiments.names.UnknownNameError: Unknown data set 'germn'. Did you mean 'german'? Known: german, a9a.
    """
    by_lower_case = {accepted.lower(): accepted for accepted in known}
    wanted = name.strip().lower()
    if wanted in by_lower_case:
        return by_lower_case[wanted]
    hint = did_you_mean(wanted, by_lower_case.values())
    raise UnknownNameError(f"Unknown {kind} {name!r}.{hint} Known: {', '.join(by_lower_case.values())}.")
