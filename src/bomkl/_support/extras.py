"""What to do where a package of an extra is not installed."""


def install_hint(extra: str) -> str:
    """Tell how to install an extra: from a clone or a wheel, since no index has this package.

    Examples
    --------
    >>> install_hint("plots")
    "Install it with: pip install '.[plots]' in a clone of bomkl, or pip install 'WHEEL[plots]'"
    """
    return f"Install it with: pip install '.[{extra}]' in a clone of bomkl, or pip install 'WHEEL[{extra}]'"
