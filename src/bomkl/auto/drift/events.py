"""Reports of drift: when it was noticed, which experts took over, and which columns changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

GROUPS = ("forget 0.97", "forget 0.999", "forget 0.99")  # see DriftExperts in the core
NEAREST = ("nearest of the last 200 rows", "nearest of the last rows", "nearest of all rows")
LABELS = ("last label", "recent labels")
TARGETS = ("last target", "recent targets", "targets of late")
MIXTURE = "mixture"
FOREVER = (NEAREST[-1], MIXTURE)  # what helps beside the model where nothing changes, too
NEW_MODEL = "new model"  # has begun with the change, and taken over (`challenged.py`)
_COLUMNS = 5  # that changed most
_LEAST_WEIGHT = 0.5  # of the experts beside the model, for a gradual change to be one


@dataclass(frozen=True)
class DriftEvent:
    """A change of the stream that was noticed.

    Attributes
    ----------
    row : int
        Number of rows learned when it was noticed.
    sudden : bool
        True if the loss rose; False if experts that forget became better than the model that never does.
    strength : float
        By how much: in standard errors if the loss rose, else the natural logarithm of the evidence.
    experts : dict of str to float
        Weight of each expert in the combination when there was evidence last. The weights sum to 1. If a new model took
        over, it has all of it.
    columns : dict of column to float
        The columns whose means changed most, by how many standard deviations.

    Examples
    --------
    >>> event = DriftEvent(1200, True, 5.3, {"model": 0.2, "forget 0.97": 0.8}, {3: 1.4})
    >>> print(event)
    row 1,200: sudden, strength 5.3, forget 0.97 has weight 0.80, column 3 moved by +1.4 deviations
    """

    row: int
    sudden: bool
    strength: float
    experts: dict[str, float]
    columns: dict[Any, float]

    def __str__(self) -> str:
        parts = [f"row {self.row:,}: {'sudden' if self.sudden else 'gradual'}", f"strength {self.strength:.1f}"]
        if self.experts:
            best = max(self.experts, key=lambda name: self.experts[name])
            parts.append(f"{best} has weight {self.experts[best]:.2f}")
        if self.columns:
            column, shift = next(iter(self.columns.items()))
            parts.append(f"column {column} moved by {shift:+.1f} deviations")
        return ", ".join(parts)


def expert_names(regression: bool) -> list[str]:
    """Names of the experts, in the order of the combination."""
    return ["model", *GROUPS, *NEAREST, *(TARGETS if regression else LABELS), MIXTURE]


def drift_events(found: list[dict[str, Any]], regression: bool, columns: Sequence[Any]) -> list[DriftEvent]:
    """Events as the core has them; `columns` says what each column of the learner belongs to.

    Where the loss did not rise, experts that became a little better than the model are no change of the stream, nor
    those that may be better at any time, such as the rows nearest of all: those that forget must outweigh them.
    """
    names = expert_names(regression)
    events = []
    for each in found:
        shifts: dict[Any, float] = {}
        for column, shift in zip(columns, each["shifts"].tolist(), strict=False):
            if abs(shift) > abs(shifts.get(column, 0.0)):
                shifts[column] = shift
        most = sorted(shifts, key=lambda column: -abs(shifts[column]))[:_COLUMNS]
        weights = dict(zip(names, np.round(each["weights"], 6).tolist(), strict=True))
        experts = 1 - weights["model"]
        if not each["sudden"] and experts < max(_LEAST_WEIGHT, 2 * sum(weights[name] for name in FOREVER)):
            continue
        if each["restarted"]:
            weights = {NEW_MODEL: 1.0}
        events.append(
            DriftEvent(
                each["row"], each["sudden"], each["strength"], weights, {column: shifts[column] for column in most}
            )
        )
    return events
