"""Tables 1 and 2: our means beside the paper's, with a mark on each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from bomkl_lab.experiments.datasets import get_spec
from bomkl_lab.experiments.document import Table, Value
from bomkl_lab.experiments.protocol import BUDGET_RIVALS, SPA, spa_beta, table_budget, table_cells
from bomkl_lab.experiments.published import PublishedRow, Summary, agrees, known_reason, published_table
from bomkl_lab.experiments.results import Row

Mark = Literal["agrees", "differs", "not run", "sample", ""]
Quantity = Literal["mistakes", "support vectors"]
NO_REASON = "no reason known"
HEADER = ("Algorithm", "Mistakes %", "paper", "mark", "SVs", "paper", "mark", "Time s", "paper")


@dataclass(frozen=True)
class Entry:
    """One line of a block: an algorithm on a data set."""

    algorithm: str
    paper: PublishedRow | None
    mistake: Summary | None = None
    svs: Summary | None = None
    seconds: Summary | None = None
    judged: bool = True
    reason: str = ""

    def mark(self, quantity: Quantity) -> Mark:
        """Say how our value stands to the paper's."""
        ours = self.mistake if quantity == "mistakes" else self.svs
        if ours is None:
            return "not run" if self.mistake is None else ""
        if self.paper is None:
            return ""
        if not self.judged:
            return "sample"
        return "agrees" if agrees(ours, self.paper.mistake if quantity == "mistakes" else self.paper.svs) else "differs"


@dataclass(frozen=True)
class BlockOfTable:
    """All algorithms on one data set, as the paper prints them."""

    table: int
    dataset: str
    entries: tuple[Entry, ...]

    @property
    def title(self) -> str:
        """The block's caption: data set, size, and what is special about it."""
        spec = get_spec(self.dataset)
        parts = [f"{spec.rows:,} rows, {spec.columns} columns"]
        if spec.stands_for:
            whole = get_spec(spec.stands_for).rows
            parts.append(
                f"a sample of {spec.stands_for}'s {whole:,}, beside the published values of the whole: not the paper's "
                f"row; beta = {spa_beta(self.dataset):.1f} keeps the expected budget alpha T / beta of the "
                f"paper's {spa_beta('susy'):g}"
            )
        if self.table == 2:
            parts.append(f"B = {table_budget(self.dataset)} for each kernel")
        return f"Table {self.table}, {self.dataset} ({'; '.join(parts)})"


@dataclass(frozen=True)
class Difference:
    """A value that does not agree with the paper's."""

    table: int
    dataset: str
    algorithm: str
    quantity: Quantity
    ours: Summary
    paper: Summary
    reason: str | None

    def __str__(self) -> str:
        where = f"Table {self.table}, {self.dataset}, {self.algorithm}, {self.quantity}"
        values = f"{_mean_std(self.ours)} against {_mean_std(self.paper)}"
        return f"{where}: {values}. {self.reason or NO_REASON.capitalize() + '.'}"


def build_block(
    table: int,
    dataset: str,
    algorithms: Sequence[str],
    rows: Mapping[str, Row],
    seeds: Sequence[int],
    missing: Mapping[str, str],
) -> BlockOfTable:
    """Summarise one data set's rows.

    Parameters
    ----------
    table : {1, 2}
        Which table.
    dataset : str
        Name of the data set.
    algorithms : sequence of str
        Lines of the block.
    rows : mapping
        Rows of the results file, by cell key.
    seeds : sequence of int
        Permutations to average over; those without a good row are left out.
    missing : mapping of str to str
        Why a data set could not be run.

    Returns
    -------
    BlockOfTable
        One entry for each algorithm.
    """
    spec = get_spec(dataset)
    published = published_table(table).get(spec.stands_for or dataset, {})
    entries = []
    for algorithm in algorithms:
        found = [rows.get(cell.key()) for cell in table_cells(table, dataset, [algorithm], seeds)]
        good = [row for row in found if row and row["status"] == "ok"]
        paper = published.get(algorithm)
        if not good:
            failed = next((row["error"] for row in found if row), None)
            reason = f"failed: {failed}" if failed else missing.get(dataset, "not asked for")
            entries.append(Entry(algorithm, paper, reason=reason))
            continue
        svs = None if good[0]["support"] is None else Summary.of([row["support"] for row in good])
        entries.append(
            Entry(
                algorithm,
                paper,
                Summary.of([100 * row["mistakes"] / row["rows"] for row in good]),
                svs,
                Summary.of([row["seconds"] for row in good]),
                judged=spec.stands_for is None,
                reason="" if len(good) == len(seeds) else f"{len(good)} of {len(seeds)} runs",
            )
        )
    return BlockOfTable(table, dataset, tuple(entries))


def as_table(block: BlockOfTable) -> Table:
    """Lay a block out; the lowest mistake rate and the shortest time are bold, as in the paper."""
    ran = [entry for entry in block.entries if entry.mistake and entry.seconds]
    best = min((round(entry.mistake.mean, 2) for entry in ran if entry.mistake), default=None)
    fastest = min((entry.seconds.mean for entry in ran if entry.seconds), default=None)
    lines = []
    for entry in block.entries:
        mistake, svs, seconds, paper = entry.mistake, entry.svs, entry.seconds, entry.paper
        lines.append(
            (
                Value(_label(block, entry)),
                Value(_mean_std(mistake), bold=mistake is not None and round(mistake.mean, 2) == best),
                Value(_mean_std(paper.mistake if paper else None), tone="muted"),
                _mark_value(entry.mark("mistakes")),
                Value(_mean_std(svs, 1)),
                Value(_mean_std(paper.svs if paper else None, 1), tone="muted"),
                _mark_value(entry.mark("support vectors")),
                Value(f"{seconds.mean:.3g}" if seconds else "-", bold=seconds is not None and seconds.mean == fastest),
                Value(f"{paper.seconds:g}" if paper else "-", tone="muted"),
            )
        )
    return Table(HEADER, tuple(lines), block.title)


def _label(block: BlockOfTable, entry: Entry) -> str:
    short = (
        entry.algorithm.removeprefix("BOMKC(").removesuffix(")") if entry.algorithm in (SPA, *BUDGET_RIVALS) else None
    )
    name = short if block.table == 2 and short else entry.algorithm
    return f"{name} ({entry.reason})" if entry.reason and entry.mistake else name


def _mark_value(mark: Mark) -> Value:
    return Value(mark or "-", tone=mark if mark in ("agrees", "differs") else "muted")


def _mean_std(summary: Summary | None, digits: int = 2) -> str:
    return "-" if summary is None else f"{summary.mean:.{digits}f} ± {summary.std:.{digits}f}"


def differences(blocks: Sequence[BlockOfTable]) -> list[Difference]:
    """Return every value that differs from the paper's, with the reason where one is known."""
    found = []
    quantities: tuple[Quantity, Quantity] = ("mistakes", "support vectors")
    for block in blocks:
        for entry in block.entries:
            for quantity in quantities:
                if entry.mark(quantity) != "differs" or entry.paper is None:
                    continue
                ours = entry.mistake if quantity == "mistakes" else entry.svs
                paper = entry.paper.mistake if quantity == "mistakes" else entry.paper.svs
                reason = known_reason(block.dataset, entry.algorithm, quantity)
                if ours is not None:
                    found.append(Difference(block.table, block.dataset, entry.algorithm, quantity, ours, paper, reason))
    return found


def agreement_counts(blocks: Sequence[BlockOfTable]) -> dict[str, tuple[int, int]]:
    """Count the values that agree among those that were compared.

    Returns
    -------
    dict
        By group of algorithms and quantity: (values that agree, values compared).
    """
    budget = {SPA, *BUDGET_RIVALS}
    counts: dict[str, tuple[int, int]] = {}
    quantities: tuple[Quantity, Quantity] = ("mistakes", "support vectors")
    for group, wanted in (("SPA and budget algorithms", True), ("Perceptron and OMKC", False)):
        for quantity in quantities:
            marks = [
                entry.mark(quantity)
                for block in blocks
                for entry in block.entries
                if (entry.algorithm in budget) == wanted and entry.mark(quantity) in ("agrees", "differs")
            ]
            counts[f"{group}, {quantity}"] = (marks.count("agrees"), len(marks))
    return counts


def not_run(blocks: Sequence[BlockOfTable]) -> list[str]:
    """Say which parts of the tables were not run, and why."""
    notes: dict[str, list[str]] = {}
    for block in blocks:
        for entry in block.entries:
            if entry.mistake is None:
                notes.setdefault(f"Table {block.table}, {block.dataset}: {entry.reason}", []).append(entry.algorithm)
    return [f"{note} ({', '.join(algorithms)})" for note, algorithms in notes.items()]
