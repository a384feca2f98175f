"""`bomkl bench document`: the report on speed and its pictures, from the results of the benchmarks."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from bomkl.paper import FEATURE_ALGORITHMS
from bomkl_lab.benchmarks.common import figures
from bomkl_lab.benchmarks.common.pages import put_tables
from bomkl_lab.benchmarks.common.rows import Row, add_into, read_rows
from bomkl_lab.benchmarks.guard import TOLERANCE
from bomkl_lab.experiments.document import Block, Heading, Listing, Paragraph, Picture, Table, Value, as_markdown
from bomkl_lab.experiments.figures import ALGORITHM_ORDER, save

FOLDER = Path("build/performance")  # rows, pictures and the report; none of them is part of the repository
REPORT = "performance.md"

PURPOSE = """\
How fast bomkl learns and predicts on one core, compared with other libraries, with NumPy, with the limits of the
machine, and with the targets of the engine."""

ABOUT = """\
This command measures everything again, in 6 to 14 minutes, and writes this report. You can also run each benchmark
alone, such as `bomkl bench roofline`; `--help` lists them.

Methods that are compared take turns. Seconds are processor time, because other programs disturb it less than elapsed
time; only runs with several threads are timed by elapsed time. On a busy machine the same work still varied by a
third, so do not read much into small differences. Each section links to its raw results."""

TARGETS = """\
The speed that the engine should reach. The bounds for BOMKC(SPA) are for a core that multiplies matrices at 80
GFLOP/s; they are scaled to the speed of this core in the same run. Targets that were missed are bold."""

ROOFLINE = """\
One core here multiplies matrices at {gflops:.0f} GFLOP/s (NumPy's sgemm), takes {exps:.1f} G exponentials a
second (the engine's own, on numbers in the cache) and reads {reads:.0f} GB/s. To score rows against stored rows
takes 2 d operations and an exponential per Gaussian kernel for each pair, and each stored row must be read
once. The longest of the three times is the limit. The table shows which share of the limit is reached when 504
float32 rows are scored, and the pairs per second. More than 100 % of sgemm means faster than BLAS. More than 100 % of
exp means that kernels share exponentials."""

SPARSE = """\
Rows that are mostly zeros, as CSR and as dense rows: BOMKC(SPA) learns from the stream, then scores its first rows."""

NUMPY = """\
The same run in vectorised NumPy, row by row: one matrix product for all kernels, float32, one thread. (For the
targets below, OMKC computes in float64, as it does for the paper's tables.)"""

GROWTH = """\
A generated stream of two classes that overlap as those of SUSY do. The exponents are least-squares fits to the
logarithms; the last column is the slope between the two largest sizes, where these are far enough apart. Each row is
compared with all stored rows, so time should grow in proportion to rows times stored rows: an exponent of 1. More
would be a fault."""

PEERS = """\
The same rows in the same order, one core, one run. The online methods predict each row before they learn from it.
SVC (LIBSVM) is fitted to the first rows, at most 10,000, and tested on as many of the next; its seconds are those of
the fit. All methods get float64 rows; the time of BOMKC(SPA) includes converting them to float32. `bomkl bench peers`
compares accuracy in detail."""

WHOLE = """\
Rows per second, with the settings of the paper's tables: each row is predicted, then learned from. The Perceptron and
OMKC store every mistake, so they become slower along the stream. They and the budget algorithms compute in float64,
BOMKC(SPA) in float32 except on madelon. Every stream is one run. Some runs were stopped after a few seconds; the
brackets then show from how many rows they had learned, and the figures are for these rows."""

OF_LIMIT = """\
Kernel values that were summed a second, in thousands of millions, and what share that is of this core's limit: the time
that the arithmetic alone would take. For each row and each stored row that is 2 d operations at the speed of a matrix
product ({gemm64:.0f} GFLOP/s in float64, {gemm32:.0f} in float32), and for each value of a Gaussian kernel one
exponential at the speed of the engine's own on numbers in the cache ({exp64:.2f} and {exp32:.2f} G a second). All that
an algorithm does besides is on top: to choose, add and drop support rows, to sum, to move numbers between caches. More
than 100 % means that kernels share exponentials. RBP, Forgetron and BOGD take most values in single precision, where
that decides a vote; their limit is that of float64 all the same. FOGD has frequencies in place of stored rows, and
cosines and sines in place of kernel values and exponentials. NOGD computes features from the kernel values, which
takes most of its time."""

GUARD = """\
`bomkl bench guard` warns when the code becomes slower. It runs short pieces of work in turn with one sgemm of 512
columns and compares the ratio of their shortest times with the one stored in `guard.toml` for the same
instruction set. It fails if a case is more than {percent:.0f} % slower three times in a row; `--update` stores new
ratios. It is part of `make bench` but not of the tests, because even ratios vary on a machine with other work."""


Section = Callable[[list[Row]], list[Block]]


def table(header: Sequence[str], rows: Sequence[Sequence[str]], bold: Sequence[bool] = ()) -> Table:
    """Make a table of texts; `bold` says which rows are."""
    marks = bold or [False] * len(rows)
    lines = (tuple(Value(text, bold=mark) for text in row) for row, mark in zip(rows, marks, strict=True))
    return Table(tuple(header), tuple(lines))


def machine_facts(row: Row) -> list[Block]:
    versions = ", ".join(
        f"{name} {row[name]}" for name in ("numpy", "scikit-learn", "river", "vowpalwabbit") if name in row
    )
    return [
        Paragraph(
            f"Measured on one core of {row['cpu']} ({row['instruction_set']}, {row['system']}), "
            f"Python {row['python']}, {versions}. The machine has {row['cores']} cores; on average "
            f"{row['load']} processes were running, this one included."
        ),
        Listing("bomkl bench all"),
        Paragraph(ABOUT),
    ]


def source(name: str) -> Paragraph:
    return Paragraph(f"`bomkl bench {name}`, [rows]({name}.jsonl).")


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def targets_section(rows: list[Row]) -> list[Block]:
    lines, missed = [], []
    for row in rows:
        if "not_run" in row:
            lines.append((row["what"], "", "not run", ""))
        else:
            sense = "at least" if row["sense"] == ">=" else "at most"
            bound, seen = (f"{number(row[field])} {row['unit']}".strip() for field in ("bound", "seen"))
            lines.append((row["what"], f"{sense} {bound}", seen, "yes" if row["met"] else "no"))
        missed.append(not row.get("met", False))
    return [
        Heading("Targets"),
        Paragraph(TARGETS),
        table(("target", "bound", "seen", "met"), lines, missed),
        source("targets"),
    ]


def roofline_section(rows: list[Row]) -> list[Block]:
    limits = next(row for row in rows if row["kernels"] == "limits")
    rates = {
        "gflops": limits["sgemm_gflops"],
        "exps": limits["exps_per_second"] / 1e9,
        "reads": limits["bytes_per_second"] / 1e9,
    }
    dense = [row for row in rows if "fraction" in row and row["path"] == "fused"]
    pools = sorted({row["pool"] for row in dense})
    lines = []
    for kernels in dict.fromkeys(row["kernels"] for row in dense):
        for d in sorted({row["d"] for row in dense}):
            cells = {row["pool"]: row for row in dense if (row["kernels"], row["d"]) == (kernels, d)}
            shown = (
                f"{row['fraction']:.0%} of {row['limit']}, {row['pairs_per_second'] / 1e9:.2f} G/s"
                for row in (cells[pool] for pool in pools)
            )
            lines.append((f"{kernels}, d = {d}", *shown))
    sparse = [row for row in rows if row["kernels"] == "sparse"]
    return [
        Heading("How close to the limit of the machine"),
        Paragraph(ROOFLINE.format(**rates)),
        table(("pool of stored rows", *(f"{pool:,}" for pool in pools)), lines),
        picture("roofline", "Fraction of the limit against the size of the pool"),
        Paragraph(SPARSE),
        table(
            ("stream", "rows as", "rows", "d", "non-zeros", "rows/s learned", "SVs", "memory", "G pairs/s scored"),
            [
                (
                    row["stream"],
                    row["rows_as"],
                    f"{row['rows']:,}",
                    f"{row['d']:,}",
                    f"{row['nonzeros_per_row']:.0f}",
                    f"{row['learn_rows_per_second']:,.0f}",
                    f"{row['support']:,}",
                    f"{row['mebibytes']:.1f} MiB",
                    f"{row['score_pairs_per_second'] / 1e9:.3g}",
                )
                for row in sparse
            ],
        ),
        source("roofline"),
    ]


def growth_section(rows: list[Row]) -> list[Block]:
    def last(row: Row) -> str:
        return "" if row["last_exponent"] is None else f"{row['last_exponent']:.2f}"

    fits = [row for row in rows if "exponent" in row]
    return [
        Heading("How time grows"),
        Paragraph(GROWTH),
        table(
            ("series", "along", "time against", "exponent", "at the end"),
            [(row["series"], row["along"], row["against"], f"{row['exponent']:.2f}", last(row)) for row in fits],
        ),
        picture("growth", "Seconds against rows, budget and columns"),
        source("growth"),
    ]


def numpy_section(rows: list[Row]) -> list[Block]:
    lines = [
        (
            row["what"],
            f"{row['seconds']:.2f}",
            f"{row['numpy_seconds']:.2f}",
            f"{row['ratio']:.0f}",
            f"{100 * row['mistakes']:.2f} and {100 * row['numpy_mistakes']:.2f}",
        )
        for row in rows
        if "numpy_seconds" in row
    ]
    return [
        Heading("Compared with NumPy"),
        Paragraph(NUMPY),
        table(("run", "seconds", "NumPy's", "times faster", "mistakes %"), lines),
        source("speed"),
    ]


def peers_section(rows: list[Row]) -> list[Block]:
    lines = []
    for row in rows:
        if "not_run" in row:
            lines.append((row["dataset"], row["method"], "not run", "", "", ""))
            continue
        cut = "" if row["rows"] == row["of_rows"] else f" of {row['of_rows']:,}"
        lines.append(
            (
                row["dataset"],
                row["method"],
                f"{row['rows']:,}{cut}",
                f"{row['seconds']:.2f}",
                f"{row['rows_per_second']:,.0f}",
                f"{100 * row['mistakes']:.2f}",
            )
        )
    return [
        Heading("Compared with other libraries"),
        Paragraph(PEERS),
        table(("data", "method", "rows", "seconds", "rows/s", "mistakes %"), lines),
        picture("speed_peers", "Mistakes against time a row"),
        source("speed_peers"),
    ]


def end_to_end_section(rows: list[Row]) -> list[Block]:
    datasets = list(dict.fromkeys(row["dataset"] for row in rows))
    by_cell = {(row["dataset"], row["algorithm"]): row for row in rows}

    order = (*ALGORITHM_ORDER, *FEATURE_ALGORITHMS)
    algorithms = [name for name in order if any((dataset, name) in by_cell for dataset in datasets)]

    def by_algorithm(corner: str, show: Callable[[Row], str]) -> Table:
        lines = [
            (name, *(show(by_cell[d, name]) if (d, name) in by_cell else "" for d in datasets)) for name in algorithms
        ]
        return table((corner, *datasets), lines)

    def speed(row: Row) -> str:
        cut = "" if row["rows"] == row["of_rows"] else f" ({row['rows']:,} rows)"
        return f"{row['rows_per_second']:,.0f}{cut}"

    return [
        Heading("Whole streams"),
        Paragraph(WHOLE),
        by_algorithm("rows/s", speed),
        by_algorithm("mistakes %", lambda row: f"{100 * row['mistakes'] / row['rows']:.2f}"),
        *of_limit(rows, by_algorithm),
        picture("end_to_end", "Rows learned per second"),
        source("end_to_end"),
    ]


def of_limit(rows: list[Row], by_algorithm: Callable[[str, Callable[[Row], str]], Table]) -> list[Block]:
    """Return kernel values a second beside the machine's limit, where the rows have them."""
    first = {row["dtype"]: row for row in rows if "of_limit" in row}
    if set(first) != {"float32", "float64"}:
        return []
    rates = {
        f"{name}{dtype[-2:]}": row[field] / unit
        for dtype, row in first.items()
        for name, field, unit in (("gemm", "gemm_gflops", 1), ("exp", "exps_per_second", 1e9))
    }

    def share(row: Row) -> str:
        return f"{row['values_per_second'] / 1e9:.2f} ({row['of_limit']:.0%})"

    return [Paragraph(OF_LIMIT.format(**rates)), by_algorithm("G values/s", share)]


def guard_section(rows: list[Row]) -> list[Block]:
    return [
        Heading("Guard against becoming slower"),
        Paragraph(GUARD.format(percent=100 * (TOLERANCE - 1))),
        table(("case", "time over sgemm's"), [(row["case"], f"{row['ratio']:.3g}") for row in rows]),
        source("guard"),
    ]


def picture(name: str, description: str) -> Picture:
    """Refer to a picture in the folder of rows."""
    return Picture(f"{name}.svg", "", description)


SECTIONS: dict[str, Section] = {
    "speed_peers": peers_section,
    "end_to_end": end_to_end_section,
    "speed": numpy_section,
    "roofline": roofline_section,
    "growth": growth_section,
    "targets": targets_section,
    "guard": guard_section,
}


def write(folder: Path, into: Sequence[Path] = ()) -> None:
    """Write the report and its pictures beside the rows; put its tables in the places of those in pages."""
    files = {name: read_rows(folder / f"{name}.jsonl") for name in SECTIONS}
    blocks: list[Block] = [Heading("Performance", 1), Paragraph(PURPOSE)]
    machine = next(iter(next(rows for rows in files.values() if rows)))
    blocks += machine_facts(machine)
    for name, section in SECTIONS.items():
        rows = [row for row in files[name] if row["bench"] == name]
        if not rows:
            continue
        blocks += section(rows)
        if name in figures.FIGURES:
            save(lambda name=name, rows=rows: figures.FIGURES[name](rows), folder, name)
    (folder / REPORT).write_text(as_markdown(blocks), encoding="utf-8")
    print(f"wrote {folder / REPORT}")
    for page in into:
        put_tables(page, [as_markdown([block]) for block in blocks if isinstance(block, Table)])


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=Path, default=FOLDER, help="folder of the rows; the report goes there too")
    add_into(options)
    chosen = options.parse_args()
    write(chosen.rows, chosen.into)
