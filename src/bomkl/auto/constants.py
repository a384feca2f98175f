"""The constants of Auto models: one choice for all data (see ``docs/auto.md``)."""

from __future__ import annotations

FIRST_STAGE = 8  # rows after which the first model is built; it is rebuilt at 16, 32, ... and at the budget
LATE_FROM = 256  # rows from which on a rebuilt model takes its place later, so that no row has to wait for all the work
LATE = 32  # by how much later: the rows it is built from divided by this
PRUNE_AT = 4  # budgets after which only the best kernels go on
KEEP = 5  # kernels that go on; one less beside trees, which take the time of one
KEEP_NARROW = 2  # of them, beside trees, with half of the budget: they take most of the time
KEEP_FROM = 0.02  # part in the combination from which trees and the additive component go on
SAMPLE = 16  # budgets of rows that are kept to grow trees from
SAMPLE_OF_OTHERS = 8  # budgets of them that are used where boosted trees do not matter; before 0.3.0 no more were kept
# Budgets at which trees are grown anew; then boosted ones at 8, 16, 32, ..., and at 6, 12, 24, ... if they matter
GROW_AT = (1.5, 2.5, 4)
GROW_WITHIN = 64  # rows that trees are grown within, a part with every row; with small budgets a quarter of it
STACK_RIDGES = (10.0, 100.0)
SHARE = 1e-3  # part of the weight that the combination spreads evenly at every row
CHUNK = 256  # rows worked on at a time, up to a multiple of it: bounds the memory of long calls
DEVICE_FROM = CHUNK  # rows from which on a device learns
MANY_CLASSES = 32  # beyond so many, kernels and trees take a time that has to be worth it
ROWS_A_CLASS = 4  # stored rows a class that many classes need at least
