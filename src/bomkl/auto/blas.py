"""One thread in BLAS for what has to have the same bits on every machine."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import Any


@cache
def _libraries() -> tuple[list[Any], list[Any]]:
    """Libraries with one limit for the whole process, and those with one for each thread that calls them."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    shared: list[Any] = []
    by_thread: list[Any] = []
    for library in ThreadpoolController().select(user_api="blas").lib_controllers:
        with_openmp = library.internal_api == "openblas" and library.threading_layer == "openmp"
        (by_thread if with_openmp else shared).append(library)
    return shared, by_thread


def _set(libraries: list[Any], numbers: list[int]) -> None:
    _let_any_thread_set_the_limit(libraries)
    for library, number in zip(libraries, numbers, strict=True):
        library.set_num_threads(number)
    _let_any_thread_set_the_limit(libraries)


def _let_any_thread_set_the_limit(libraries: list[Any]) -> None:
    """Undo that only the thread that set a limit first may set another: from version 3.8 on, others do nothing."""
    for library in libraries:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


def _limited(libraries: list[Any]) -> list[int]:
    """Let libraries work with one thread; returns how many each had."""
    before = [library.num_threads for library in libraries]
    _set(libraries, [1] * len(libraries))
    return before


class _OneBlasThread:
    """Work with one thread in BLAS: with more, the last bits would depend on the machine's load.

    Most libraries have one limit for the process, so the first to come sets it and the last to leave takes it back.
    OpenBLAS on OpenMP has a limit for each thread that calls it, so each thread has to enter before it calls BLAS.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), 0
        self._before: list[int] = []
        self._here = threading.local()

    def __enter__(self) -> None:
        shared, by_thread = _libraries()
        with self._lock:
            if self._inside == 0:
                self._before = _limited(shared)
            self._inside += 1
        depth = vars(self._here).get("depth", 0)
        if depth == 0:
            self._here.before = _limited(by_thread)
        self._here.depth = depth + 1

    def __exit__(self, *error: object) -> None:
        shared, by_thread = _libraries()
        self._here.depth -= 1
        if self._here.depth == 0:
            _set(by_thread, self._here.before)
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _set(shared, self._before)

    def begin_anew(self) -> None:
        """Forget the others who were inside: in a forked process only the thread that forked is left."""
        inside = vars(self._here).get("depth", 0)
        if self._inside and not inside:
            _set(_libraries()[0], self._before)
        self._lock, self._inside = threading.Lock(), inside


one_blas_thread = _OneBlasThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=one_blas_thread.begin_anew)
