"""`bomkl bench hard_budget`: which row SPA should drop when its budget is full.

Five rules on the bundled data, with one Gaussian kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from bomkl._support.progress import progress_bar
from bomkl.demo import load_demo_data
from bomkl_lab.benchmarks.common.rows import Row, parser, report

ROWS, SEEDS, SIGMA = 8000, 3, 64.0
BUDGETS = (50, 250)
ETA, ALPHA, BETA = 0.1, 1.0, 3.0
RULES = ("project the cheapest", "drop the cheapest", "drop the smallest", "drop the oldest", "tighten beta")


def mistakes_percent(rule, budget, X, y, seed):
    """Progressive mistakes of SPA with one Gaussian kernel under a rule for the full budget."""
    rng = np.random.default_rng(seed)
    rows, coefs, mistakes = np.empty((0, X.shape[1])), np.empty(0), 0
    for x, label in zip(X, y, strict=True):
        values = np.exp(-((rows - x) ** 2).sum(axis=1) / (2 * SIGMA**2))
        f = coefs @ values
        mistakes += label * f <= 0
        loss = max(0.0, 1 - label * f)
        rho = min(ALPHA, loss) / BETA
        if rule == "tighten beta":
            rho *= 1 - len(coefs) / budget
        if not rng.random() < rho:
            continue
        coef = label * min(ETA / rho, loss)
        if len(coefs) == budget:
            cost = np.arange(budget) if rule == "drop the oldest" else coefs**2
            if rule in ("project the cheapest", "drop the cheapest"):
                cost = cost * (1 - values**2)
            victim = int(np.argmin(cost))
            if rule == "project the cheapest":
                coef += coefs[victim] * values[victim]
            rows, coefs = np.delete(rows, victim, axis=0), np.delete(coefs, victim)
        rows, coefs = np.vstack([rows, x]), np.append(coefs, coef)
    return 100 * mistakes / len(y)


def measure() -> Iterator[Row]:
    """Give a row for each rule: its mean mistakes with each budget."""
    X, y = load_demo_data()
    with progress_bar(len(RULES) * len(BUDGETS) * SEEDS, "streams", "stream") as bar:
        for rule in RULES:
            row: Row = {"rule": rule}
            for budget in BUDGETS:
                rates = []
                for seed in range(SEEDS):
                    order = np.random.default_rng(seed).permutation(len(y))[:ROWS]
                    rates.append(mistakes_percent(rule, budget, X[order].astype(float), y[order], seed))
                    bar.update()
                row[f"budget_{budget}"] = float(np.mean(rates))
            yield row


def show(row: Row) -> str:
    return f"{row['rule']:<22}" + "".join(f"{row[f'budget_{budget}']:>10.2f}" for budget in BUDGETS)


def main() -> None:
    chosen = parser(__doc__).parse_args()
    print(f"{'magic04, mistakes %':<22}" + "".join(f"{f'B = {budget}':>10}" for budget in BUDGETS))
    report("hard_budget", measure(), show, chosen.out)
