"""What `cpp/auto/growth/growth_model.hpp` does, in NumPy: which rows the sample has, and how the stack learns."""

import numpy as np

from bomkl.auto.task import Task

PURPOSE, BLOCK = 0x67726F77, 32
FORGET, RIDGE, LARGEST, CLIP, SHARE = 0.9975, 10.0, 3.0, 10.0, 2e-4


def hashes(seed, rows):
    """Hashes of row numbers; NumPy adds 1 to the counter before its first draw."""
    keys = {"key": [seed, PURPOSE]}
    return np.array([np.random.Philox(counter=(i - 1) % 2**256, **keys).random_raw() >> 32 for i in range(rows)])


def means(f, task):
    if task.is_regression:
        return f
    if task is Task.BINARY:
        return 1 / (1 + np.exp(-np.clip(f, -15, 15)))
    p = np.exp(np.maximum(f - f.max(), -15))
    return p / p.sum()


def loss(f, y, task):
    if task.is_regression:
        return min(0.5 * (f[0] - y[0]) ** 2, 10.0)
    if task is Task.BINARY:
        return np.logaddexp(0, -(2 * y[0] - 1) * np.clip(f[0], -15, 15))
    relative = np.maximum(f - f.max(), -15)
    return np.log(np.exp(relative).sum()) - relative @ y


class NaiveStack:
    """Newton steps on blocks of rows; S are (inputs, outputs)."""

    def __init__(self, inputs=4):
        self.w, self.known = np.eye(inputs)[0], np.zeros((inputs, inputs))

    def learn(self, rows, task):
        pull = np.zeros(len(self.w))
        self.known *= FORGET
        for S, y, weight in rows:
            p = means(self.w @ S, task)
            pull += weight * S @ (y - p)
            if task is Task.MULTICLASS:
                centred = S - (S @ p)[:, None]
                self.known += weight * (centred * p) @ centred.T
            else:
                h = max(p[0] * (1 - p[0]), 0.02) if task is Task.BINARY else 1.0
                self.known += weight * h * S @ S.T
        step = np.linalg.solve(self.known + RIDGE * np.eye(len(pull)), pull)
        before = sum(weight * loss(self.w @ S, y, task) for S, y, weight in rows)
        for size in (1, 0.5, 0.25, 0.125):
            w = np.clip(self.w + size * step, -LARGEST, LARGEST)
            if sum(weight * loss(w @ S, y, task) for S, y, weight in rows) <= before:
                self.w = w
                return


class NaiveHedge:
    """Log odds of the stack beside the learner within."""

    def __init__(self):
        self.odds, self.size, self.rows = 0.0, 0.0, 0

    @property
    def share(self):
        return 1 / (1 + np.exp(-self.odds))

    def learn(self, plain, stacked, weight, task):
        gain = plain - stacked
        if task.is_regression:
            self.rows += 1
            self.size += max(1 / 512, 1 / self.rows) * (min(plain, stacked) - self.size)
            gain = np.clip(0.5 * gain / max(self.size, 1e-12), -10, 10)
        self.odds = np.clip(self.odds + weight * gain, -30, 30)
        share = (1 - 2 * SHARE) * self.share + SHARE
        self.odds = np.log(share / (1 - share))
