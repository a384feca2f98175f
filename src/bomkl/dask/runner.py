"""Calls the functions of `bomkl.partitions` on the workers of a cluster."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from typing import Any

from dask.delayed import Delayed, delayed

from bomkl.partitions import Call, Gains, Job, PartitionError, Piece, Runner, named, piece_sums, total

_ADD_AT_ONCE = 16  # pieces whose gains are added on a worker before they go to the client
_PATIENCE = 300  # seconds without any worker
_PATIENCE_AFTER_DEATHS = 60
_LOOK = 5  # seconds between two looks at the workers


class DaskRunner(Runner):
    """Calls the functions of `bomkl.partitions` on the workers."""

    def __init__(self, client: Any, tables: list[Delayed]) -> None:
        self.client, self.tables = client, tables
        self.held: dict[int, Any] = {}  # partitions that a round has taken a part of: the next one takes more
        self.static: Any = None
        self.deaths = False  # workers have died of a task more often than Dask bears

    def gains(self, job: Job, pieces: list[Piece]) -> Iterable[Gains]:
        if self.static is None:
            self.static = delayed(_itself)(job.static())
        means = delayed(_itself)(job.means())
        self._hold(pieces)
        groups = [pieces[i : i + _ADD_AT_ONCE] for i in range(0, len(pieces), _ADD_AT_ONCE)]
        calls: list[Call] = [
            (_gains, [piece.partition for piece in group], (self.static, means, group)) for group in groups
        ]
        for _, gains in self.results(calls):
            yield gains

    def _hold(self, pieces: list[Piece]) -> None:
        """Keep partitions in the memory of the workers while later rounds take more of their rows, and no longer."""
        used = {piece.partition for piece in pieces}
        self.held = {i: held for i, held in self.held.items() if i in used}
        new = sorted({piece.partition for piece in pieces if piece.end < piece.rows} - self.held.keys())
        if new:
            self.held.update(zip(new, self.client.persist([self.tables[i] for i in new]), strict=True))

    def attempt(self, calls: dict[int, Call]) -> Iterator[tuple[int, Any]]:
        """Compute all calls; those whose workers died too often for the scheduler are left out."""
        from distributed import KilledWorker, as_completed

        futures = self.client.compute([self._task(*call) for call in calls.values()])
        places = {future.key: i for i, future in zip(calls, futures, strict=True)}
        died, alone = False, threading.Event()
        try:
            for future in self._watched(as_completed(futures), futures, alone):
                i = places[future.key]
                try:
                    result = future.result()
                except KilledWorker:
                    died = self.deaths = True
                    continue
                except CancelledError:
                    if not alone.is_set():
                        raise
                    if self.deaths:  # so that is why there is no worker
                        continue
                    raise PartitionError(
                        f"Partition {calls[i][1][0]}: the cluster has had no worker for {_PATIENCE} seconds. Start "
                        "some and call again: learning goes on from the checkpoint."
                    ) from None
                except PartitionError:
                    raise
                except Exception as error:
                    with named(self._culprit(calls[i][1])):
                        raise error
                yield i, result
        finally:
            self.client.cancel(futures)
            if died:
                self.held = {}  # what a dead worker held

    def _watched(self, ready: Iterable[Any], futures: list[Any], alone: threading.Event) -> Iterator[Any]:
        """Yield futures; where there is no worker for long, set `alone` and cancel them: nobody waits for ever."""
        stop = threading.Event()

        def watch() -> None:
            seconds = 0
            while not stop.wait(_LOOK):
                with contextlib.suppress(OSError, TimeoutError):  # the scheduler is busy, or gone
                    seconds = 0 if self.client.nthreads() else seconds + _LOOK
                if seconds >= (_PATIENCE_AFTER_DEATHS if self.deaths else _PATIENCE):
                    alone.set()
                    self.client.cancel(futures)
                    return

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield from ready
        finally:
            stop.set()
            thread.join()

    def _task(self, function: Callable[..., Any], partitions: list[int], arguments: tuple[Any, ...]) -> Delayed:
        tables = [self.held.get(i, self.tables[i]) for i in partitions]
        task: Delayed
        if function is _gains:  # a task for each piece, so that all workers have something to do
            *shared, pieces = arguments
            pairs = zip(tables, pieces, strict=True)
            task = delayed(total)([delayed(_gains)(table, *shared, piece) for table, piece in pairs])
        else:
            task = delayed(function)(*tables, *arguments)
        return task

    def _culprit(self, partitions: list[int]) -> int:
        for i in partitions:
            try:
                self.client.compute(self.tables[i]).result()
            except Exception:
                return i
        return partitions[0]


def _itself(value: Any) -> Any:
    return value


def _gains(table: tuple[Any, ...], static: Any, means: Any, piece: Piece) -> Gains:
    return piece_sums(static, means, piece, *table)


@contextlib.contextmanager
def current_client(given: Any) -> Iterator[Any]:
    """Yield a client: the one given, the current one, or a new one for as long as it is needed."""
    from distributed import Client, LocalCluster, get_client

    if given is not None:
        yield given
        return
    try:
        current = get_client()
    except ValueError:
        with LocalCluster(processes=False, dashboard_address=":0") as cluster, Client(cluster) as client:
            yield client
        return
    yield current


@contextlib.contextmanager
def cluster_runner(address: str, read: Callable[[int], tuple[Any, ...]], count: int) -> Iterator[Runner]:
    """Yield a runner on the cluster of a scheduler, whose workers read partitions themselves."""
    from distributed import Client

    with Client(address) as client:
        yield DaskRunner(client, [delayed(read, pure=True)(i) for i in range(count)])
