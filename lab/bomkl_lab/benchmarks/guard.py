"""`bomkl bench guard`: has the engine become slower? Its time relative to sgemm, compared with guard.toml.

Seconds depend on the machine and on who else uses it. The ratio to a matrix product that runs in turn with the engine
depends on them less, though not little, so only a large change counts. It is kept for each instruction set. Counting
instructions would be steadier still, but callgrind does not know AVX-512 and takes minutes to import the package, and
virtual machines hide the counters of the processor.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier, _core, paper
from bomkl._support.progress import progress_bar
from bomkl_lab.benchmarks.common.generated import model_with_pool, susy_like
from bomkl_lab.benchmarks.common.limits import sgemm
from bomkl_lab.benchmarks.common.measure import Work, best_in_turn, one_thread
from bomkl_lab.benchmarks.common.rows import Row, parser, report
from bomkl_lab.benchmarks.roofline import BATCH, POOL_KERNELS, fused_work

REFERENCE = Path(__file__).with_name("guard.toml")
TOLERANCE = 1.5  # on a busy machine the same code gave ratios a third apart
ATTEMPTS = 3


def scoring(kernels: str, d: int) -> Callable[[], Work]:
    def make() -> Work:
        X = np.random.default_rng(1).standard_normal((BATCH, d), dtype=np.float32)
        return fused_work(model_with_pool(POOL_KERNELS[kernels], 2_000, d), X)

    return make


def learning(estimator: Callable[[], Any], rows: int) -> Callable[[], Work]:
    def make() -> Work:
        X, y = susy_like(rows)
        return lambda: estimator().score_and_learn(X, y)

    return make


def learning_ones() -> Work:
    """14 columns of 8 categories each, in zeros and ones."""
    rng = np.random.default_rng(0)
    categories = rng.integers(0, 8, (8_000, 14))
    X = np.eye(8, dtype=np.float32)[categories].reshape(len(categories), -1)
    y = np.where((categories < 4).sum(axis=1) + rng.normal(size=len(X)) > 7, 1, -1)
    return lambda: paper.algorithm("BOMKC(SPA)").set_params(random_state=0).score_and_learn(X, y)


def paper_learning(name: str, rows: int, budget: int | None = None) -> Callable[[], Work]:
    return learning(lambda: paper.algorithm(name, budget).set_params(random_state=0), rows)


CASES: dict[str, Callable[[], Work]] = {
    "score, one Gaussian, d = 8": scoring("one Gaussian", 8),
    "score, one Gaussian, d = 123": scoring("one Gaussian", 123),
    "score, 16 kernels, d = 22": scoring("16 kernels", 22),
    "learn, BOMKC(SPA)": paper_learning("BOMKC(SPA)", 4_000),
    "learn, BOMKC(SPA), zeros and ones": learning_ones,
    "learn, OMKC(DD)": paper_learning("OMKC(DD)", 1_000),
    "learn, BOMKC(RBP)": paper_learning("BOMKC(RBP)", 1_000, 64),
    "learn, AutoMKL": learning(lambda: AutoMKLClassifier(random_state=0), 500),
}


def ratio_to(product: Work, work: Work) -> float:
    """Return the shortest time of a piece of work over that of sgemm, taken in turn."""
    seconds, of_product = best_in_turn(work, product, seconds=1.0, rounds=11)
    return seconds / of_product


def check(case: str, ratio_of: Callable[[], float], reference: Mapping[str, float]) -> Row:
    """Compare a ratio with the one that is kept; a slow one is measured again, as only a slower engine stays slow."""
    ratio, kept = ratio_of(), reference.get(case)
    for _ in range(ATTEMPTS - 1):
        if kept is None or ratio <= TOLERANCE * kept:
            break
        ratio = min(ratio, ratio_of())
    slower = kept is not None and ratio > TOLERANCE * kept
    return {"case": case, "ratio": ratio, "reference": kept, "slower": slower}


def measure(
    reference: Mapping[str, float] | None = None, cases: Mapping[str, Callable[[], Work]] = CASES
) -> Iterator[Row]:
    """All rows; by default beside the ratios that are kept for this instruction set."""
    reference = read_reference().get(_core.instruction_set(), {}) if reference is None else reference
    product = sgemm()
    with progress_bar(len(cases), "cases", "case") as bar:
        for case, make in cases.items():
            yield check(case, partial(ratio_to, product, make()), reference)
            bar.update()


def show(row: Row) -> str:
    if row["reference"] is None:
        return f"{row['case']:30} {row['ratio']:8.3f} times sgemm; nothing to compare with"
    change = row["ratio"] / row["reference"] - 1
    verdict = f"SLOWER than the {TOLERANCE - 1:.0%} allowed" if row["slower"] else "good"
    return f"{row['case']:30} {row['ratio']:8.3f} times sgemm, was {row['reference']:8.3f} ({change:+.0%}): {verdict}"


def read_reference(path: Path = REFERENCE) -> dict[str, dict[str, float]]:
    """Ratios by instruction set and case."""
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def write_reference(reference: Mapping[str, Mapping[str, float]], path: Path = REFERENCE) -> None:
    """Keep ratios."""
    lines = ["# Time over that of one sgemm, by instruction set: bomkl bench guard --update"]
    for instruction_set, ratios in reference.items():
        lines += ["", f"[{instruction_set}]", *(f'"{case}" = {ratio:.4g}' for case, ratio in ratios.items())]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--update", action="store_true", help="keep the ratios of this run")
    chosen = options.parse_args()
    one_thread()
    rows = report("guard", measure({} if chosen.update else None), show, chosen.out)
    if chosen.update:
        ratios = {row["case"]: row["ratio"] for row in rows}
        write_reference(read_reference() | {_core.instruction_set(): ratios})
    slower = [row["case"] for row in rows if row["slower"]]
    if slower:
        sys.exit(f"slower than {REFERENCE.name} allows: {'; '.join(slower)}")
