"""``train`` and ``predict`` with ``--from URL``: rows come from a broker, each exactly once."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Iterator
from itertools import count, repeat
from time import monotonic
from typing import TYPE_CHECKING, Any

from bomkl._support.files import locked, replacing
from bomkl.cli.messages import UsageError, say
from bomkl.cli.options import PipeOptions
from bomkl.cli.output import ProgressTable, prediction_text, print_result
from bomkl.cli.rows import open_for_learning, open_for_predicting, schema_of, valid_notes
from bomkl.cli.settings import RunSettings
from bomkl.cli.signals import Deferred, Stopped

if TYPE_CHECKING:
    from bomkl.modelfile import Model
    from bomkl.sources.base import Record, SourceUrl
    from bomkl.sources.payloads import Row
    from bomkl.sources.records import Records
    from bomkl.streams import Block, Schema

_SAVE_SECONDS = 60.0  # between two model files at most, while rows come


def source_url(text: str) -> SourceUrl:
    """Read the URL of a source, whose messages go to standard error."""
    from bomkl.sources import SourceError, SourceUrl

    try:
        return SourceUrl(text, lambda line: say(f"bomkl: {line}"))
    except SourceError as error:
        raise UsageError(str(error)) from error


def source_rows(chosen: dict[str, Any]) -> dict[str, Any]:
    """Give the settings of rows that come as records: lines of JSON, of which bad ones are left out."""
    if given := {"format", "on_bad_line"} & set(chosen):
        raise UsageError(f"--{min(given).replace('_', '-')} is for files. Leave it out; see 'payload' of the URL.")
    return chosen | {"format": "jsonl", "on_bad_line": "skip"}


def source_settings(settings: RunSettings) -> RunSettings:
    return dataclasses.replace(settings, rows=source_rows(settings.rows))


def report_records(records: Records) -> None:
    """Say what was left out, and what still waits."""
    if records.dead.count:
        say(f"bomkl: {records.dead.count} records were left out; 'dead_letters' of the URL says where they go.")
    if (join := records.join) is not None:
        say(
            f"bomkl: {join.waiting} rows wait for their label; {join.unmatched_rows} rows and "
            f"{join.unmatched_labels} labels had no match."
        )


def predict_from(
    source: str,
    to: str | None,
    positions: str | None,
    model: Model,
    path: str,
    chosen: dict[str, Any],
    pipe: PipeOptions,
    kind: str,
    method: str,
) -> None:
    """Predict the records of a source, and print or publish the predictions."""
    from bomkl.sources.publishing import Publisher
    from bomkl.sources.records import Records
    from bomkl.streams.errors import NoRowsError

    state: dict[str, Any] = {}
    if positions is not None and os.path.exists(positions):
        with valid_notes(positions), open(positions, encoding="utf-8") as file:
            state = json.load(file)
    with Deferred() as signals:
        records = Records(source_url(source), state, waiting=signals.waiting)
        publisher = None if to is None else Publisher(source_url(to), state.get("published"))

        def save() -> None:
            if positions is not None and publisher is not None:
                with replacing(positions) as file:
                    file.write(json.dumps(records.state() | {"published": publisher.state()}).encode())
                records.saved()

        learned = int(model.estimator.n_seen_)
        try:
            if not state:
                save()
            stream = open_for_predicting(model, path, records, source_rows(chosen), pipe, labels=False)
            for block in stream:
                found = getattr(model.estimator, method)(block.X)
                values = [_named(row, model.estimator) for row in found.tolist()]
                used = records.used(len(values))
                if publisher is None:
                    for value in values:
                        print_result(prediction_text(value, kind))
                else:
                    publisher.publish(used, values, repeat(learned))
                    save()
        except NoRowsError:
            say(f"bomkl: {records.name}: no rows have come.")
        except Stopped:
            pass
        finally:
            records.close()
            if publisher is not None:
                publisher.close()
        report_records(records)
        if signals.received:
            sys.exit(128 + signals.received)


def _named(row: Any, estimator: Any) -> Any:
    return dict(zip(map(str, estimator.classes_), row, strict=True)) if isinstance(row, list) else row


def train_from(
    url: SourceUrl,
    to: str | None,
    settings: RunSettings,
    pipe: PipeOptions,
    output: str,
    resume: bool,
    checkpoint_every: int,
    quiet: bool,
    json_lines: bool,
) -> None:
    """Learn from the records of a source until it ends or a signal comes; the model file holds how far it is."""
    from bomkl.streams.errors import NoRowsError

    table = ProgressTable(quiet, json_lines)
    with Deferred() as signals, locked(output):
        run = _Training(url, to, source_settings(settings), output, resume, signals)
        records = run.records
        try:
            for block in run.blocks(pipe):
                for record in run.learn(block):
                    table.report(record, records.lag())
                if table.is_due:
                    table.show(run.validation.current(), records.lag())
                if run.rows_to_save >= checkpoint_every or monotonic() >= run.save_due:
                    run.save()
        except NoRowsError:
            say(f"bomkl: {records.name}: no rows have come.")
        except Stopped:
            run.save()
        finally:
            run.close()
        report_records(records)
        if signals.received:
            say(f"bomkl: stopped; {output} holds every row learned so far, and --resume goes on.")
            sys.exit(128 + signals.received)


class _Training:
    """A model, the records it learns from, and how far it is: all of it is in the model file."""

    def __init__(
        self, url: SourceUrl, to: str | None, settings: RunSettings, output: str, resume: bool, signals: Deferred
    ) -> None:
        from bomkl import modelfile
        from bomkl.evaluate import ProgressiveValidation, Tally
        from bomkl.sources.order import OrderLog
        from bomkl.sources.publishing import Publisher
        from bomkl.sources.records import Records

        self.settings, self.output, self.url = settings, output, url
        self.schema: Schema | None = None
        state: dict[str, Any] = {}
        order, tally = f"{output}.order", None
        if resume and os.path.exists(output):
            model = modelfile.read(output)
            estimator, self.schema = model.estimator, schema_of(model, output)
            state, tally = self._checked(model.notes), Tally(**model.notes["tally"])
        else:
            estimator = settings.estimator()
            OrderLog(order).clear()  # that of a model that is going to be replaced
        self._predictions: list[Any] = []
        self.validation = ProgressiveValidation(estimator, tally=tally, observe=self._observe)
        self.records = Records(url, state, order, signals.waiting)
        self.records.on_rows = self._predict
        self._publisher = None if to is None else Publisher(source_url(to), state.get("published"))
        self.rows_to_save, self.save_due = 0, 0.0
        if not state:
            self.save()  # from here on, what a run that is killed has read and published can be found again

    def _checked(self, notes: dict[str, Any]) -> dict[str, Any]:
        """Give the state of the source that a model file holds, if it is of the same run."""
        if "source" not in notes:
            raise ValueError(f"{self.output}: was not trained with --from URL, so there is no such run to resume.")
        with valid_notes(self.output):
            state: dict[str, Any] = notes["source"]
            before, place = RunSettings(**notes["settings"]), state["url"]
        if place != self.url.shown or before != self.settings:
            other = before.differences(self.settings) or f"source ({place}, now {self.url.shown})"
            raise ValueError(f"{self.output}: was trained with other settings: {other}.")
        return state

    def blocks(self, pipe: PipeOptions) -> Iterator[Block]:
        """Rows as they come; at the end the model is saved."""
        stream = open_for_learning(self.records, self.settings, pipe, self.validation.estimator, self.schema)
        for block in stream:
            if (schema := stream.schema) is not self.schema and schema is not None:
                self.schema, self.validation.classes = schema, schema.classes
            yield block
        self.save()

    def learn(self, block: Block) -> list[Any]:
        """Learn from rows, publish what was predicted, and leave out rows that cannot be learned from."""
        before, reports = self.validation.tally.rows, []
        try:
            reports += self.validation.learn(block.X, block.y, block.weight)
            self._used(self.validation.tally.rows - before)
        except ValueError:
            done = self.validation.tally.rows - before
            self._used(done)
            for row in range(done, block.n_rows):
                one = block.between(row, row + 1)
                try:
                    reports += self.validation.learn(one.X, one.y, one.weight)
                    self._used(1)
                except ValueError as error:
                    self.records.refuse_next(str(error))
        self.rows_to_save += self.validation.tally.rows - before
        return reports

    def _used(self, rows: int) -> None:
        records, predictions = self.records.used(rows), self._predictions
        self._predictions = []
        if self._publisher is not None and self.records.join is None:
            self._publisher.publish(records, predictions, count(self.validation.tally.rows - rows))

    def _observe(self, predictions: Any) -> None:
        self._predictions += predictions.tolist()

    def _predict(self, records: list[Record], rows: list[Row]) -> None:
        """Publish predictions of rows whose label comes later."""
        if self._publisher is None:
            return
        estimator, columns = self.validation.estimator, () if self.schema is None else self.schema.columns or ()
        predictions: list[Any] = [None] * len(rows)
        if hasattr(estimator, "n_features_in_"):
            names = [column.name for column in columns]
            predictions = estimator.predict({name: [row.get(name) for row in rows] for name in names}).tolist()
        self._publisher.publish(records, predictions, repeat(self.validation.tally.rows))

    def save(self) -> None:
        """Write the model file, which holds the positions too, then tell the broker."""
        from bomkl import modelfile

        notes = {
            "settings": dataclasses.asdict(self.settings),
            "schema": None if self.schema is None else self.schema.to_dict(),
            "tally": dataclasses.asdict(self.validation.tally),
            "source": self.records.state()
            | {"url": self.url.shown, "published": None if self._publisher is None else self._publisher.state()},
        }
        modelfile.save(self.validation.estimator, self.output, notes)
        self.records.saved()
        self.rows_to_save, self.save_due = 0, monotonic() + _SAVE_SECONDS

    def close(self) -> None:
        """Leave the broker. After an error, the last model file stands: it holds the positions that belong to it."""
        self.records.close()
        if self._publisher is not None:
            self._publisher.close()
