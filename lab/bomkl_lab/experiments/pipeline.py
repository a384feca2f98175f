"""The whole reproduction: what was asked for, the cells it takes, and everything made from their rows."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bomkl_lab.experiments import bounds
from bomkl_lab.experiments.algorithms import FEATURE_ALGORITHMS, registered_algorithms, resolve_algorithm
from bomkl_lab.experiments.converters import DataFileError
from bomkl_lab.experiments.datasets import (
    MissingDataError,
    data_folders,
    fetch,
    find_local,
    get_spec,
    how_to_get,
    own_datasets,
)
from bomkl_lab.experiments.figures import spa_support_by_beta
from bomkl_lab.experiments.protocol import (
    FIGURE_DATASET,
    QUICK_DATASETS,
    SPA,
    Cell,
    figure_rival_cells,
    figure_sensitivity_cells,
    table_cells,
    table_datasets,
    unique_cells,
)
from bomkl_lab.experiments.published import PUBLISHED_RUNS, published_table
from bomkl_lab.experiments.results import Results
from bomkl_lab.experiments.runner import run_cells
from bomkl_lab.experiments.tables import BlockOfTable, build_block

QUICK_RUNS = 3
FIGURE_RUNS = 3
ROWS_FILE = "rows.jsonl"


@dataclass(frozen=True)
class Request:
    """What to reproduce.

    Attributes
    ----------
    tables : tuple of int
        Which of Tables 1 and 2; with neither tables nor figure given, everything.
    figure : bool
        Whether to make Figure 1.
    datasets, algorithms : tuple of str
        Restrict the run to these; all if empty.
    runs : int or None
        Number of permutations: 10, or 3 in a quick run, by default. Figure 1 uses at most 3.
    jobs : int
        Number of processes.
    out : Path
        Folder for the rows, figures and report.
    quick : bool
        Only german, magic04 and a9a, and no Figure 1.
    retry_failed : bool
        Whether cells that failed in an earlier run are run again.
    download : bool
        Whether data sets that are missing may be downloaded.
    """

    tables: tuple[int, ...] = ()
    figure: bool = False
    datasets: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    runs: int | None = None
    jobs: int = 1
    out: Path = Path("reproduction")
    quick: bool = False
    retry_failed: bool = False
    download: bool = True

    def __post_init__(self) -> None:
        for name, value in (("runs", self.runs), ("jobs", self.jobs)):
            if value is not None and value < 1:
                raise ValueError(f"The '{name}' parameter of reproduce must be an int >= 1. Got {value} instead.")
        if wrong := set(self.tables) - {1, 2}:
            raise ValueError(f"The 'table' parameter of reproduce must be 1 or 2. Got {wrong.pop()} instead.")
        object.__setattr__(self, "datasets", tuple(get_spec(name).name for name in self.datasets))
        object.__setattr__(self, "algorithms", tuple(resolve_algorithm(name) for name in self.algorithms))
        if not self.wants_figure and not _cells_of_tables(self, set(filter(self.is_wanted, _all_datasets()))):
            raise ValueError(self._nothing_matches())

    def _nothing_matches(self) -> str:
        asked = [f"Table {' and '.join(map(str, self.wanted_tables))}"]
        asked += [f"data sets {', '.join(self.datasets)}"] if self.datasets else []
        asked += [f"algorithms {', '.join(self.algorithms)}"] if self.algorithms else []
        more = [*registered_algorithms(), *FEATURE_ALGORITHMS]
        held = [
            f"Table {table} has the data sets {', '.join([*published_table(table), *own_datasets(table)])} and the "
            "algorithms "
            f"{', '.join([*next(iter(published_table(table).values())), *more])}."
            for table in self.wanted_tables
        ]
        return " ".join([f"No cell matches what was asked for: {'; '.join(asked)}.", *held])

    @property
    def seeds(self) -> range:
        """Permutations of the tables."""
        return range(self.runs or (QUICK_RUNS if self.quick else PUBLISHED_RUNS))

    @property
    def figure_seeds(self) -> range:
        """Permutations of Figure 1."""
        return range(min(len(self.seeds), FIGURE_RUNS))

    @property
    def wanted_tables(self) -> tuple[int, ...]:
        """Tables to make."""
        return self.tables or (() if self.figure else (1, 2))

    @property
    def wants_figure(self) -> bool:
        """Whether Figure 1 is to be made."""
        return self.figure or not (self.tables or self.quick or self.datasets or self.algorithms)

    def table_algorithms(self, table: int) -> list[str]:
        """Lines of a table: the paper's, then the registered ones, as far as they are asked for."""
        lines = [*next(iter(published_table(table).values())), *registered_algorithms()]
        lines += [name for name in FEATURE_ALGORITHMS if name in self.algorithms]
        return [name for name in lines if not self.algorithms or name in self.algorithms]

    def is_wanted(self, dataset: str) -> bool:
        """Whether a data set is to be run; asking for a whole includes the part that stands in for it."""
        chosen = self.datasets or (QUICK_DATASETS if self.quick else ())
        return not chosen or dataset in chosen or get_spec(dataset).stands_for in chosen

    def command(self) -> str:
        """Return the command line that asks for the same; a folder is named without what lies above it."""
        words = ["bomkl", "reproduce"]
        words += [f"--table {table}" for table in self.tables]
        words += ["--figure 1"] if self.figure else []
        words += ["--quick"] if self.quick else []
        words += [f"--datasets {','.join(self.datasets)}"] if self.datasets else []
        words += [f"--algorithms {shlex.quote(','.join(self.algorithms))}"] if self.algorithms else []
        words += [f"--runs {len(self.seeds)}", f"--jobs {self.jobs}", f"--out {shlex.quote(self.out.name or '.')}"]
        return " ".join(words)


@dataclass(frozen=True)
class Outcome:
    """What a run gave."""

    request: Request
    results: Results
    blocks: tuple[BlockOfTable, ...]
    bound_datasets: tuple[str, ...] = ()
    has_figure: bool = False
    missing: dict[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()
    report: Path | None = None


def reproduce(request: Request) -> Outcome:
    """Run what is missing, then make the tables, figures and report from the rows.

    Parameters
    ----------
    request : Request
        What to reproduce.

    Returns
    -------
    Outcome
        The tables, and where the report lies.
    """
    from bomkl_lab.experiments.report import write_report

    missing = unavailable(request)
    available = set(_all_datasets()) - set(missing)
    cells = _cells_of_tables(request, available)
    bound_datasets = _bound_datasets(request, available)
    cells += bounds.bound_cells(bound_datasets, request.seeds)
    has_figure = request.wants_figure and FIGURE_DATASET in available
    if has_figure:
        cells += figure_sensitivity_cells(request.figure_seeds)
    path = request.out / ROWS_FILE
    results = run_cells(unique_cells(cells), path, request.jobs, request.retry_failed)
    if has_figure:
        # The rivals get as many support vectors as SPA turned out to use, so they can only run after it.
        rivals = figure_rival_cells(spa_support_by_beta(results.rows, request.figure_seeds), request.figure_seeds)
        cells += [cell for cell in rivals if not request.algorithms or cell.algorithm in request.algorithms]
        later = run_cells(unique_cells(cells), path, request.jobs)
        results = Results(later.rows, results.problems)

    outcome = Outcome(
        request,
        results,
        tuple(_blocks(request, available, results, missing)),
        tuple(bound_datasets),
        has_figure,
        missing,
        tuple(_failures(cells, results)),
    )
    return write_report(outcome)


def prepare_folder(out: Path) -> None:
    """Make the folder of a run, so that one that cannot be written to is refused before anything is run."""
    rule = "The 'out' parameter of reproduce must be a folder that can be written to"
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = "it is a file" if out.exists() and not out.is_dir() else error.strerror
        raise ValueError(f"{rule}. Got {str(out)!r} instead ({problem}); choose another with --out.") from error
    rows = out / ROWS_FILE
    if rows.exists() and not rows.is_file():
        raise ValueError(f"{rule}. Got {str(out)!r} instead ({rows} is not a file); choose another with --out.")
    if not os.access(out, os.W_OK) or (rows.exists() and not os.access(rows, os.R_OK | os.W_OK)):
        raise ValueError(f"{rule}. Got {str(out)!r} instead (permission denied); choose another with --out.")


def _all_datasets() -> list[str]:
    paper = dict.fromkeys(name for table in (1, 2) for name in published_table(table))
    return [*paper, "susy-sample", *own_datasets(table=1)]


def unavailable(request: Request) -> dict[str, str]:
    """Return the data sets that cannot be run here and why, after trying to get those that are asked for."""
    reasons = {}
    for name in _all_datasets():
        spec = get_spec(name)
        needed = request.is_wanted(name) or (request.wants_figure and name == FIGURE_DATASET)
        if not needed:
            reasons[name] = "not asked for"
        elif not find_local(spec) and (
            not request.download or (spec.access == "large" and name not in request.datasets)
        ):
            reasons[name] = f"not on this machine; `bomkl datasets fetch {name}` gets it. {how_to_get(spec)}"
        else:
            try:
                fetch(spec)
            except (MissingDataError, DataFileError) as error:
                reasons[name] = _without_folders(str(error))
    return reasons


def _without_folders(text: str) -> str:
    """Leave out where the data lies on this machine: the text goes into the report."""
    for folder in data_folders():
        text = text.replace(f"{folder}/", "")
    return text


def _datasets_of_table(request: Request, table: int, available: set[str]) -> list[str]:
    return [name for name in table_datasets(table, available) if request.is_wanted(name)]


def _cells_of_tables(request: Request, available: set[str]) -> list[Cell]:
    return [
        cell
        for table in request.wanted_tables
        for dataset in _datasets_of_table(request, table, available)
        if dataset in available
        for cell in table_cells(table, dataset, request.table_algorithms(table), request.seeds)
    ]


def _bound_datasets(request: Request, available: set[str]) -> list[str]:
    if not request.wanted_tables or (request.algorithms and SPA not in request.algorithms):
        return []
    return [name for name in bounds.DATASETS if name in available]


def _blocks(request: Request, available: set[str], results: Results, missing: dict[str, str]) -> list[BlockOfTable]:
    return [
        build_block(table, dataset, algorithms, results.rows, request.seeds, missing)
        for table in request.wanted_tables
        for dataset in _datasets_of_table(request, table, available)
        if (algorithms := request.table_algorithms(table))
    ]


def _failures(cells: Sequence[Cell], results: Results) -> list[str]:
    rows = [results.rows[cell.key()] for cell in unique_cells(cells) if cell.key() in results.rows]
    return [
        "{dataset}, {algorithm}, seed {seed}: ".format(**row["cell"]) + f"{row['error']} ({row['place']})"
        for row in rows
        if row["status"] == "failed"
    ]
