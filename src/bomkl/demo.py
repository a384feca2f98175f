"""`bomkl demo`: the paper's nine algorithms and AutoMKL on one real stream, and which kernel won."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from bomkl import paper
from bomkl._support.progress import progress_bar
from bomkl.auto import AutoMKLClassifier
from bomkl.budget import BudgetMKLClassifier
from bomkl.kernels import KernelLike

CHUNK = 1000
BAR_WIDTH = 40


@dataclass(frozen=True)
class DemoRow:
    """What one algorithm did on the stream."""

    name: str
    mistake_rate: float
    n_support: int
    seconds: float
    model: BudgetMKLClassifier | AutoMKLClassifier


AUTO = "AutoMKL"
NEXT = """\
What to try next:
  bomkl eval rows.csv --label COLUMN                  how AutoMKL does on your table (CSV, Parquet, ...)
  bomkl train rows.csv --label COLUMN -o m.bomkl      learn from it, and from a pipe with - instead of the file
  bomkl predict m.bomkl new.csv                       predict; bomkl score m.bomkl new.csv scores
  python -c "import bomkl; help(bomkl.AutoMKLClassifier)"
"""


def load_demo_data() -> tuple[NDArray[np.float32], NDArray[np.int8]]:
    """Return the bundled MAGIC Gamma Telescope data: 19,020 rows, 10 columns, labels -1 and +1.

    Examples
    --------
    >>> X, y = load_demo_data()
    >>> X.shape
    (19020, 10)
    """
    with as_file(files("bomkl").joinpath("data/magic04.npz")) as path, np.load(path) as data:
        return np.ascontiguousarray(data["X"]), data["y"]  # they are stored by columns, which takes less room


def run_algorithm(name: str, X: NDArray[np.float32], y: NDArray[np.int8], advance: object = None) -> DemoRow:
    """Learn from the stream once, with AutoMKL or an algorithm of the paper."""
    model = AutoMKLClassifier(random_state=0) if name == AUTO else paper.algorithm(name).set_params(random_state=0)
    # Perceptron(*) chooses its kernel from its first call, so it gets the whole stream there
    chunk = len(y) if name == "Perceptron(*)" else CHUNK
    start = perf_counter()
    for begin in range(0, len(y), chunk):
        part = slice(begin, begin + chunk)
        model.score_and_learn(X[part], y[part], classes=[-1, 1])
        if callable(advance):
            advance(len(y[part]))
    seconds = perf_counter() - start
    return DemoRow(name, 100 * model.mistakes_ / model.n_seen_, int(model.n_support_.sum()), seconds, model)


def format_table(rows: list[DemoRow]) -> str:
    """Lay out the results, the fewest mistakes marked."""
    best = min(row.mistake_rate for row in rows)
    lines = [f"{'algorithm':<18} {'mistakes %':>10} {'support vectors':>16} {'seconds':>8}"]
    lines.append("-" * len(lines[0]))
    for row in rows:
        mark = "  <- fewest mistakes" if row.mistake_rate == best else ""
        lines.append(f"{row.name:<18} {row.mistake_rate:>10.2f} {row.n_support:>16,} {row.seconds:>8.2f}{mark}")
    return "\n".join(lines)


def format_kernels(kernels: list[KernelLike], weights: NDArray[np.float64], n_support: NDArray[np.int64]) -> str:
    """Draw how many support vectors each kernel was given as a bar."""
    lines = []
    for kernel, weight, count in zip(kernels, weights, n_support, strict=True):
        bar = "#" * round(BAR_WIDTH * count / n_support.max())
        lines.append(f"{kernel!r:<42} {weight:>6.3f} {count:>6,} {bar}".rstrip())
    return "\n".join([f"{'kernel':<42} {'weight':>6} {'SVs':>6}", *lines])


def run_demo() -> None:
    """Run AutoMKL and the nine algorithms of the paper on the bundled data and print what they did."""
    X, y = load_demo_data()
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    print(f"MAGIC Gamma Telescope: {len(y):,} rows, {X.shape[1]} columns, one pass, nothing tuned.")
    rows, names = [], (*paper.ALGORITHMS, AUTO)
    with progress_bar(len(y) * len(names), "learning", "row") as bar:
        for name in names:
            bar.set_description(name)
            rows.append(run_algorithm(name, X, y, bar.update))
    print(f"\n{format_table(rows)}\n")
    winner = next(row for row in rows if row.name == "BOMKC(SPA)").model
    assert isinstance(winner, BudgetMKLClassifier)
    best = winner.kernels_[int(winner.kernel_weights_.argmax())]
    print(f"The kernel that won in BOMKC(SPA): {best!r}. Where its support vectors went:\n")
    print(format_kernels(winner.kernels_, winner.kernel_weights_, winner.n_support_))
    print(f"\n{NEXT}", end="")
