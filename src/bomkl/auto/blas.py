"""One thread in BLAS for what has to have the same bits on every machine."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

from bomkl._core import OneBlasThread
from bomkl._support.forks import in_forked_process


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


class _Limit:
    """One thread in BLAS for threads of ours: with more, the last bits would depend on the machine's load.

    Most libraries have one limit for the process, so the first to come sets it and the last to leave takes it back.
    OpenBLAS on OpenMP has a limit for each thread that calls it, so each thread has to enter before it calls BLAS.
    """

    def __init__(self) -> None:
        self._lock, self._inside = threading.Lock(), set[int]()
        self._shared, self._own = _Limited(), threading.local()

    def __call__(self, inside: bool) -> None:
        """Enter or leave; what was interrupted is made good by the next call."""
        shared, by_thread = _libraries()
        with self._lock:
            (self._inside.add if inside else self._inside.discard)(threading.get_ident())
            self._shared.apply(shared, bool(self._inside))
        own: _Limited = vars(self._own).setdefault("limited", _Limited())
        own.apply(by_thread, inside)

    def begin_anew(self) -> None:
        """Forget the others who were inside: in a forked process only the thread that forked is left."""
        inside = threading.get_ident() in self._inside
        self._lock, self._inside = threading.Lock(), set()
        self(inside)


class _Limited:
    """Whether some libraries are limited, and how many threads each had before."""

    _before: list[int] | None = None
    _is_set = False

    def apply(self, libraries: list[Any], limited: bool) -> None:
        if limited and not self._is_set:
            if self._before is None:
                self._before = [library.num_threads for library in libraries]
            _set(libraries, [1] * len(libraries))
            self._is_set = True
        elif not limited and self._before is not None:
            self._is_set = False
            _set(libraries, self._before)
            self._before = None


_limit = _Limit()
one_blas_thread = OneBlasThread(_limit)
in_forked_process(_limit.begin_anew)
