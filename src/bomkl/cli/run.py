"""A training run of the command line: it is saved, stopped and resumed, and learns from no row twice."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

from bomkl.cli.messages import naming, say
from bomkl.cli.options import PipeOptions
from bomkl.cli.output import ProgressTable
from bomkl.cli.rows import open_for_learning, schema_of, valid_notes
from bomkl.cli.settings import RunSettings
from bomkl.cli.signals import Deferred, Stopped

if TYPE_CHECKING:
    from bomkl.evaluate import Progress, ProgressiveValidation
    from bomkl.streams import Block, Stream


class Run:
    """A training run: an estimator, the stream it learns from, and how far it is."""

    stream: Stream
    validation: ProgressiveValidation

    def __init__(self, settings: RunSettings, inputs: list[str], output: str, shuffle: bool) -> None:
        from bomkl.cli.fingerprint import Fingerprint, FirstRows

        self.settings, self.inputs, self.output = settings, inputs, output
        self.done_passes, self.row = 0, 0
        self.history: list[dict[str, Any]] = []
        # Of the rows of this pass so far, of those it had when it was saved, and of all rows of the pass before
        self.fingerprint, self.before, self.whole = Fingerprint(), Fingerprint(), Fingerprint()
        self.whole_rows = 0
        self.first_rows = FirstRows()
        self.predictions: Predictions | None = None
        self.only_new = False
        self.shuffle = shuffle
        self.has_learned, self.refused = False, False

    @classmethod
    def begin(
        cls,
        settings: RunSettings,
        pipe: PipeOptions,
        inputs: list[str],
        output: str,
        passes: int,
        resume: bool,
        start_from: str | None,
        shuffle: bool,
    ) -> Run:
        """Set up a run, a new one or one that was stopped."""
        from bomkl import modelfile
        from bomkl.cli.fingerprint import Fingerprint, FirstRows
        from bomkl.evaluate import ProgressiveValidation, Tally
        from bomkl.streams import StreamError

        run = cls(settings, inputs, output, shuffle)
        schema, tally = None, None
        if resume and os.path.exists(output):
            model = modelfile.read(output)
            run._check_same(model.notes)
            estimator, schema = model.estimator, schema_of(model, output)
            with valid_notes(output):
                run.done_passes, run.row = _count(model.notes["done_passes"]), _count(model.notes["row"])
                run.history, tally = list(model.notes["history"]), Tally(**model.notes["tally"])
                run.before = Fingerprint(model.notes["fingerprint"]["begun"])
                run.whole = Fingerprint(model.notes["fingerprint"]["whole"])
                run.whole_rows = _count(model.notes["fingerprint"].get("rows", tally.rows))
                run.first_rows = FirstRows(map(_count, model.notes["fingerprint"].get("first_rows", ())))
        elif start_from is not None:
            model = modelfile.read(start_from)
            estimator, schema = model.estimator, schema_of(model, start_from)
        else:
            estimator = settings.estimator()
        run.stream = open_for_learning(inputs, settings, pipe, estimator, schema)
        if passes > 1 and not run.stream.rewindable:
            raise StreamError(f"{run.stream.name}: can be read only once, so --passes must be 1. Got {passes} instead.")
        run.validation = ProgressiveValidation(estimator, classes=classes_of(run.stream), tally=tally)
        return run

    def learn(self, passes: int, checkpoint_every: int | None, signals: Deferred, table: ProgressTable) -> None:
        """Learn from the rows that are left and save the model; on a signal, save it after the block at hand."""

        def show(records: list[Progress]) -> None:
            for record in self._noted(records):
                table.report(record)

        try:
            with signals.waiting():
                self._reopen_pass(passes)
                self._check_complete_pass()
            if self.done_passes >= passes:
                say(f"bomkl: {self.output} has learned from all rows of {self.stream.name} before; none is new.")
            while self.done_passes < passes:
                with table.bar(self.stream.n_rows, "learning", self.row):
                    self._learn_pass(checkpoint_every, signals, table, show)
                if self.done_passes and self.fingerprint.to_dict() != self.whole.to_dict():
                    self._refuse_other_rows()
                self.done_passes, self.row, self.whole_rows = self.done_passes + 1, 0, self.row
                self.whole, self.fingerprint = self.fingerprint, type(self.fingerprint)()
            show(self.validation.finish())
            self.save()
        except Stopped:
            if self.has_learned or not os.path.exists(self.output):
                self.save()
            raise
        except (ValueError, OSError) as error:
            if self.has_learned and not self.refused:
                if isinstance(error, OSError):
                    self.predictions = None  # it may be they that cannot be written, and the model still can
                self.save()
                say(f"bomkl: {self.output} holds the rows before the error, and --resume goes on.")
            raise

    def _learn_pass(
        self,
        checkpoint_every: int | None,
        signals: Deferred,
        table: ProgressTable,
        show: Callable[[list[Progress]], None],
    ) -> None:
        from bomkl.evaluate import metric_name

        tally, estimator = self.validation.tally, self.validation.estimator
        saved = tally.rows
        for block in self._blocks(signals):
            show(self._learn_block(block))
            check_classes(estimator, self.stream)
            if self.predictions is not None:
                self.predictions.flush()
            table.advance(block.n_rows, tally.errors, tally.rows, metric_name(estimator))
            if table.is_due:
                table.show(self.validation.current())
            if checkpoint_every and tally.rows - saved >= checkpoint_every:
                self.save()
                saved = tally.rows

    def _learn_block(self, block: Block) -> list[Progress]:
        """Learn from a block, and note how many of its rows were learned from even if the others could not be."""
        before = self.validation.tally.rows
        try:
            return self.validation.learn(block.X, block.y, block.weight)
        finally:
            if learned := self.validation.tally.rows - before:
                self.first_rows.add(block.between(0, learned), self.row)
                self.fingerprint.add(block.between(0, learned))
                self.row += learned
                self.has_learned = True

    def _all_blocks(self) -> Iterator[Block]:
        """Rows of one pass, in the order in which they are learned from."""
        from bomkl.streams.shuffling import shuffled

        return shuffled(self.stream, self.settings.seed) if self.shuffle else iter(self.stream)

    def _blocks(self, signals: Deferred) -> Iterator[Block]:
        """Blocks of this pass that are left to learn from; those before are read again and compared."""
        left = 0 if self.only_new else self.row
        if self.only_new:
            self.fingerprint, self.only_new = type(self.fingerprint)(self.before.to_dict()), False
        blocks = self._all_blocks()
        while True:
            with signals.waiting():
                block = next(blocks, None)
                if block is not None and left == self.row > 0 and self._is_other_data(block):
                    left = self.row = 0
                if block is not None and left:
                    known = min(left, block.n_rows)
                    self.fingerprint.add(block.between(0, known))
                    left -= known
                    if left == 0:
                        if self.fingerprint.to_dict() != self.before.to_dict():
                            self._refuse_other_rows()
                        say(f"bomkl: skipped {self.row} rows that {self.output} has learned from before.")
                    block = block.between(known, block.n_rows) if known < block.n_rows else None
                    if block is None:
                        continue
            if block is None:
                if left:
                    self._refuse_other_rows(f"has only {self.row - left} rows")
                return
            yield block

    def _reopen_pass(self, passes: int) -> None:
        """Go on with a complete pass if there may be more rows: those of a pipe, or what --only-new says is new."""
        if passes == self.done_passes == 1 and (self.only_new or not self.stream.rewindable):
            self.done_passes, self.row, self.before = 0, self.whole_rows, self.whole

    def _is_other_data(self, block: Block) -> bool:
        """Tell whether a pipe holds new data: no row that it begins with is among the first ones of the run."""
        if self.stream.rewindable or not self.first_rows.has_none_of(block):
            return False  # the same rows, or some of them have changed, which the fingerprint will show
        say(
            f"bomkl: {self.stream.name} does not begin with the {self.row} rows that {self.output} has learned from; "
            "all of its rows are learned from as new ones."
        )
        return True

    def _check_complete_pass(self) -> None:
        """Read what the pass before has read, to see whether it is still the same."""
        if self.done_passes == 0 or self.row or not self.stream.rewindable:
            return  # rows of a pass that was begun are compared while it goes on
        whole = type(self.fingerprint)()
        for block in self._all_blocks():
            whole.add(block)
        if whole.to_dict() != self.whole.to_dict():
            self._refuse_other_rows()

    def _refuse_other_rows(self, what: str = "does not hold the rows it has learned from") -> None:
        from bomkl.streams import StreamError

        self.refused = True
        raise StreamError(
            f"{self.output}: the rows have changed since it was trained: {self.stream.name} {what}. To learn from "
            f"other rows with it, use --start-from {self.output}; if all of them are new, add --only-new; to learn "
            "from all of them again, leave out --resume."
        )

    def _noted(self, records: list[Progress]) -> Iterator[Progress]:
        for record in records:
            names = ("rows", "error", "error_since_last", "support_vectors", "top_kernel", "metric")
            self.history.append({name: getattr(record, name) for name in names})
            yield record

    def save(self) -> None:
        """Write the model file: the model, and all that is needed to go on."""
        from bomkl import modelfile

        if self.predictions is not None:
            self.predictions.flush(to_disk=True)
        schema = self.stream.schema if self.validation.tally.rows else None
        notes = {
            "settings": dataclasses.asdict(self.settings),
            "inputs": self.inputs,
            "shuffle": self.shuffle,
            "schema": None if schema is None else schema.to_dict(),
            "done_passes": self.done_passes,
            "row": self.row,
            "fingerprint": {
                "begun": self.fingerprint.to_dict(),
                "whole": self.whole.to_dict(),
                "rows": self.whole_rows,
                "first_rows": self.first_rows.to_list(),
            },
            "tally": dataclasses.asdict(self.validation.tally),
            "history": self.history,
        }
        modelfile.save(self.validation.estimator, self.output, notes)

    def _check_same(self, notes: dict[str, Any]) -> None:
        needed = {"settings", "inputs", "done_passes", "row", "tally", "history", "schema", "fingerprint"}
        if not needed <= set(notes):
            raise ValueError(
                f"{self.output}: was not written by 'bomkl train' of this version, so there is no run to resume; "
                "see --start-from."
            )
        with valid_notes(self.output):
            before = RunSettings(**notes["settings"])
        if before != self.settings:
            raise ValueError(f"{self.output}: was trained with other settings: {before.differences(self.settings)}.")
        if notes.get("shuffle", False) != self.shuffle:
            raise ValueError(f"{self.output}: was trained {'without' if self.shuffle else 'with'} --shuffle.")
        if notes["inputs"] != self.inputs:
            raise ValueError(
                f"{self.output}: was trained on {notes['inputs']}, not {self.inputs}. To learn from other rows with "
                f"it, use --start-from {self.output}."
            )


class Predictions:
    """Predictions of rows, one a line, flushed with every block."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._name = "standard output" if file is sys.stdout else file.name

    def add(self, predictions: Any) -> None:
        with naming(self._name):
            self._file.writelines(f"{each}\n" for each in predictions.tolist())

    def flush(self, to_disk: bool = False) -> None:
        with naming(self._name):
            self._file.flush()
            if to_disk and self._file is not sys.stdout:
                os.fsync(self._file.fileno())


@contextlib.contextmanager
def predictions_file(path: str | None, run: Run) -> Iterator[None]:
    """Open the file for predictions; that of a run that goes on keeps the lines of the rows learned before."""
    if path is None:
        yield
        return
    with contextlib.ExitStack() as stack:
        file: Any = sys.stdout
        stack.enter_context(naming(path))
        if path != "-":
            learned = run.validation.tally.rows
            if learned:
                _cut(path, learned)
            file = stack.enter_context(open(path, "a" if learned else "w", encoding="utf-8"))
        run.predictions = Predictions(file)
        run.validation.observe = run.predictions.add
        yield


def _cut(path: str, lines: int) -> None:
    """Cut a file after so many lines: those of rows that are going to be learned again."""
    file: BinaryIO
    try:
        with open(path, "r+b") as file:
            kept = sum(1 for _ in islice(iter(file.readline, b""), lines))
            if kept < lines:
                raise ValueError(
                    f"{path}: has {kept} predictions, but {lines} rows were learned from; see --predictions."
                )
            file.truncate(file.tell())
    except FileNotFoundError:
        raise ValueError(f"{path}: is not there, but {lines} rows were learned before; see --predictions.") from None


def classes_of(stream: Stream) -> tuple[Any, ...] | None:
    return None if stream.schema is None else stream.schema.classes


def check_classes(estimator: Any, stream: Stream) -> None:
    """Refuse so many labels that they are no classes."""
    from bomkl.streams.errors import check_number_of_classes

    check_number_of_classes(stream.name, len(getattr(estimator, "classes_", ())))


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is not a count")
    return value
