"""``train --workers`` and ``train --scheduler``: learning from files in partitions."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

from bomkl.cli.messages import UsageError, say
from bomkl.cli.rows import report_skipped
from bomkl.cli.settings import RunSettings, stream_arguments

if TYPE_CHECKING:
    from bomkl.partitions import Job
    from bomkl.partitions.files import FilePartition, RowReader
    from bomkl.streams import Stream
    from bomkl.streams.schema import Schema


def train_in_partitions(
    settings: RunSettings,
    inputs: list[str],
    output: str,
    workers: int | None,
    scheduler: str | None,
    resume: bool,
    quiet: bool,
) -> None:
    """Learn from files with processes of this machine, or with the workers of a Dask cluster, and save the model."""
    from sklearn.base import is_regressor

    from bomkl import modelfile
    from bomkl._support.progress import progress_bar
    from bomkl.partitions import Job, learn_partitions

    estimator = settings.estimator()
    if not hasattr(estimator, "update") or estimator.drift == "adapt":
        raise UsageError(
            '--workers and --scheduler are for the algorithms auto and auto-regression, not drift="adapt".'
        )
    estimator.set_params(update="rounds")
    saved = modelfile.read(output) if resume and os.path.exists(output) else None
    begun, own = perf_counter(), process_time()
    reader = _reader(settings, inputs, is_regressor(estimator))
    with _runner(reader, workers, scheduler) as runner:
        with progress_bar(len(reader.parts), "counting rows", "partition") as bar:
            summaries = runner.summaries(len(reader.parts), is_regressor(estimator), bar.update)
        job = Job(estimator, summaries)
        if saved is not None:
            _resume(job, saved, output)

        def save() -> None:
            modelfile.save(job.model, output, _notes(settings, inputs, reader, job))

        with progress_bar(job.rows, "learning", "row", initial=job.done) as bar:
            learn_partitions(job, runner, save, bar.update)
        seconds, one = perf_counter() - begun, process_time() - own + getattr(runner, "busy", 0.0)
    if (workers or 1) > 1 and seconds > one:
        say(
            f"bomkl: {workers} processes took {seconds:.1f} s for {one:.1f} s of work, the rest to start and to wait. "
            "One process would be faster for so few rows: leave out --workers."
        )
    if not quiet:
        _report(job, seconds)


def _reader(settings: RunSettings, inputs: list[str], regression: bool) -> RowReader:
    from bomkl.partitions.files import RowReader, file_partitions
    from bomkl.streams import open_stream

    target: Any = "number" if regression else "class"

    def opened(inputs: list[str]) -> Stream:
        return open_stream(inputs, target=target, **stream_arguments(settings.rows, True))

    stream = opened(inputs)
    parts = tuple(file_partitions(inputs, stream.options))
    next(iter(stream))  # shows what the columns hold, unless one has had no value yet
    schema = stream.schema
    if schema is None or schema.columns is None or not _is_whole(schema, parts, opened):
        stream = opened(inputs)
        schema = stream.scan()
        report_skipped(stream)
    schema = dataclasses.replace(schema, label_kind="number") if regression else schema
    return RowReader(parts, stream.options, dataclasses.replace(schema, classes=None))


def _is_whole(schema: Schema, parts: tuple[FilePartition, ...], opened: Callable[[list[str]], Stream]) -> bool:
    """Whether the first rows have shown all columns: none is without a value, and no later file brings others."""
    from bomkl.streams.errors import NoRowsError

    if any(each.kind == "unknown" for each in schema.columns or ()) or any(part.format == "jsonl" for part in parts):
        return False  # each row of JSON lines may bring columns
    names = {column.name for column in schema.columns or ()}
    for path in dict.fromkeys(part.path for part in parts):
        later = opened([path])
        with contextlib.suppress(NoRowsError):
            next(iter(later))
        if later.schema is not None and not {column.name for column in later.schema.columns or ()} <= names:
            return False
    return True


@contextlib.contextmanager
def _runner(reader: RowReader, workers: int | None, scheduler: str | None) -> Iterator[Any]:
    from bomkl.partitions.files import PoolRunner

    if scheduler is None:
        with PoolRunner(reader, workers or 1) as pool:
            yield pool
        return
    from bomkl.dask import cluster_runner

    with cluster_runner(scheduler, reader, len(reader.parts)) as runner:
        yield runner


def _notes(settings: RunSettings, inputs: list[str], reader: RowReader, job: Job) -> dict[str, Any]:
    return {
        "settings": dataclasses.asdict(settings),
        "inputs": inputs,
        "schema": reader.schema.to_dict(),
        "done_passes": int(job.done == job.rows),
        "row": 0 if job.done == job.rows else job.done,
        "history": [],
        "partitions": job.notes(),
    }


def _resume(job: Job, saved: Any, output: str) -> None:
    notes = saved.notes.get("partitions")
    if notes is None:
        raise ValueError(f"{output}: was not written by 'bomkl train --workers', so there is no run to resume.")
    job.resume(saved.estimator, notes)
    say(f"bomkl: skipped {job.done} rows that {output} has learned from before.")


def _report(job: Job, seconds: float) -> None:
    model = job.model
    error = f", progressive error {model.mistakes_ / model.n_seen_:.4f}" if hasattr(model, "mistakes_") else ""
    print(
        f"{model.n_seen_:,} rows in {len(job.counts)} partitions{error}, {seconds:.1f} s, "
        f"{model.n_seen_ / max(seconds, 1e-9):,.0f} rows/s",
        file=sys.stderr,
    )
