"""What a forked process does first."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import WeakMethod


def in_forked_process(method: Callable[[], None]) -> None:
    """Call a method of an object in every process that is forked, as long as there is that object."""
    if hasattr(os, "register_at_fork"):
        weak = WeakMethod(method)  # the interpreter would keep it, its module and all that is in there to the very end
        os.register_at_fork(after_in_child=lambda: _call(weak))


def _call(weak: WeakMethod[Callable[[], None]]) -> None:
    if (method := weak()) is not None:
        method()
