"""One thread in BLAS for what has to have the same bits on every machine."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def _let_any_thread_set_the_limit() -> None:
    """Undo that only the thread that set a limit first may set another: from version 3.8 on, others do nothing."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


class _OneBlasThread:
    """Work with one thread in BLAS: with more, the last bits would depend on the machine's load.

    The limit is one of the process, so the first to come sets it and the last to leave takes it back.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                _let_any_thread_set_the_limit()
                self._limit = _controller().limit(limits=1, user_api="blas")
                _let_any_thread_set_the_limit()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def _restore(self) -> None:
        _let_any_thread_set_the_limit()
        self._limit.restore_original_limits()
        _let_any_thread_set_the_limit()

    def begin_anew(self) -> None:
        """Forget who was inside: in a forked process nobody is left to leave."""
        if self._inside:
            self._restore()
        self.__init__()  # type: ignore[misc]


one_blas_thread = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.begin_anew)
