"""Trials within some hundred rows, so that tests of growth take little time."""

from dataclasses import replace

from bomkl.auto.growth import grown_trees, growth_learner
from bomkl.auto.growth.pace import Pace, Switch

SMALL = Pace(coded=64, first=256, judge=320, window=256, at_once=128, lead=4, again=2, full=256, anew=2.0)


def grow_soon(monkeypatch):
    monkeypatch.setattr(growth_learner, "PACE", SMALL)
    monkeypatch.setattr(grown_trees, "_ROUNDS", 60)


def let_win(monkeypatch, *numbers):
    """Let some ingredients win every trial, the others none."""

    def judged(self, seen, gains, pace):
        wins = any(self.least == growth_learner._LEAST[number] for number in numbers)
        return replace(self, phase="on", due=2 * seen) if wins else self.dropped(seen, pace)

    monkeypatch.setattr(Switch, "judged", judged)
