"""Row counts at which a learner changes: functions of its budget alone, so that calls may be cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bomkl.auto.constants import FIRST_STAGE, GROW_AT, GROW_WITHIN, LATE, LATE_FROM, PRUNE_AT


@dataclass(frozen=True)
class Schedule:
    """When models are rebuilt, trees are grown and kernels are dropped.

    Examples
    --------
    >>> schedule = Schedule(budget=400)
    >>> list(schedule.stages())
    [8, 16, 32, 64, 128, 256, 400]
    >>> schedule.next_stage(128), schedule.next_stage(264)
    (264, 412)
    >>> schedule.next_growth(700)
    1000
    """

    budget: int  # rows that are kept
    ahead: bool = True  # whether large models are built a part with every row, and take their places a little later

    def stages(self) -> Iterator[int]:
        """Row counts that models are built from."""
        stage = min(FIRST_STAGE, self.budget)
        while stage < self.budget:
            yield stage
            stage = min(2 * stage, self.budget)
        yield stage

    def late(self, stage: int) -> int:
        """Rows that come between those a model is rebuilt from and its taking its place; it learns them then."""
        return stage // LATE if self.ahead and stage >= LATE_FROM else 0

    def next_stage(self, seen: int) -> int:
        """Row count at which a rebuilt model takes its place next; the last such count when the budget is full."""
        due = 0
        for stage in self.stages():
            due = stage + self.late(stage)
            if due > seen:
                break
        return due

    def built_from(self, due: int) -> int:
        """First rows that the model that takes its place at a row count is built from."""
        return next(stage for stage in self.stages() if stage + self.late(stage) == due)

    @property
    def prune_at(self) -> int:
        """Row count after which only the best kernels go on."""
        return PRUNE_AT * self.budget

    @property
    def first_growths(self) -> list[int]:
        """Row counts at which all trees are grown anew."""
        return [int(budgets * self.budget) for budgets in GROW_AT]

    @property
    def rows_to_grow(self) -> int:
        """Rows between those that trees are grown from and the trees' taking their places."""
        return min(GROW_WITHIN, self.budget // 4)

    def next_growth(self, seen: int) -> int:
        """Row count at which growing trees anew may begin next, or at which the one under way has begun."""
        taken = seen - self.rows_to_grow
        last = self.first_growths[-1]
        while 2 * last <= taken:
            last *= 2
        return next(each for each in (*self.first_growths, last + last // 2, 2 * last) if each > taken)

    def always_grows(self, event: int) -> bool:
        """Whether trees are grown at a row count of `next_growth` even if they matter little.

        Examples
        --------
        >>> [event for event in (1000, 1600, 2400, 3200) if not Schedule(budget=400).always_grows(event)]
        [2400]
        """
        while event > self.first_growths[-1]:
            event //= 2
        return event in self.first_growths

    def rows_to_event(self, seen: int, at_once: int, trees: bool) -> int:
        """Rows until something happens; also at each multiple of `at_once`, and to trees where there are any."""
        events = [self.next_stage(seen), self.prune_at, seen - seen % at_once + at_once]
        if trees:
            growth = self.next_growth(seen)
            events += [growth, growth + self.rows_to_grow]
        return min(event - seen for event in events if event > seen)
