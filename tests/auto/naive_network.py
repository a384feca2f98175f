"""The online network in NumPy and double precision: what ``cpp/auto/growth/network.hpp`` does, without its haste."""

from itertools import pairwise

import numpy as np

from bomkl.auto.task import HUBER, Task

NEW, REPLAYED, HIDDEN = 32, 96, (128, 64)
RATE, HALF, LARGEST_RESIDUAL = 0.002, 2000, 16.0


def draws(seed, step, count, n=REPLAYED):
    """Draws 0, ..., count - 1 as the core makes them: high halves of the words of Philox with the key (seed, step)."""
    before_zero = np.full(4, 2**64 - 1, dtype=np.uint64)  # NumPy advances the counter before its first draw
    words = np.random.Philox(counter=before_zero, key=np.array([seed, step], dtype=np.uint64)).random_raw(n)
    return ((words >> np.uint64(32)) * np.uint64(count) >> np.uint64(32)).astype(int)


class NaiveNetwork:
    """`layers` are arrays (units and a constant, next units); the moments of their gradients begin at zero."""

    def __init__(self, values, layers, task, seed):
        self.values, self.layers, self.task, self.seed = (
            values.astype(float),
            [w.astype(float) for w in layers],
            task,
            seed,
        )
        self.means, self.squares = [0 * w for w in self.layers], [0 * w for w in self.layers]
        self.steps, self.open = 0, []

    @classmethod
    def of(cls, values, outputs, task, seed):
        sizes, layers = (len(values), *HIDDEN, outputs), []
        for layer, (a, b) in enumerate(pairwise(sizes)):
            w = np.zeros((a + 1, b))
            if layer < 2:
                w[:a] = (draws(seed, 2**64 - 1 - layer, 2**24, a * b).reshape(a, b) - 2**23) * np.sqrt(3 / a) / 2**23
            layers.append(w)
        return cls(values, layers, task, seed)

    def forward(self, codes):
        units = [self.values[np.arange(codes.shape[1]), codes]]
        for w in self.layers[:-1]:
            units.append(np.tanh(units[-1] @ w[:-1] + w[-1]))
        return units, units[-1] @ self.layers[-1][:-1] + self.layers[-1][-1]

    def score_and_learn(self, codes, y, weight, seen, sample):
        scores, t = [], 0
        while t < len(y):
            part = slice(t, t + NEW - (seen + t) % NEW)
            scores.append(self.forward(codes[part])[1])
            self.open += zip(codes[part], y[part], weight[part], strict=True)
            t = part.stop
            if t <= len(y):
                drawn = [] if sample is None else draws(self.seed, self.steps, len(sample[1]))
                rows = self.open + [tuple(array[i] for array in sample) for i in drawn]
                self.step(*(np.array(each) for each in zip(*rows, strict=True)))
                self.open = []
        return np.concatenate(scores)

    def rehearse(self, codes, y, weight):
        for s in range(0, len(y), NEW):
            self.step(codes[s : s + NEW], y[s : s + NEW], weight[s : s + NEW])

    def step(self, codes, y, weight):
        if not weight.any():
            return
        units, f = self.forward(codes)
        if self.task is Task.BINARY:
            g = 1 / (1 + np.exp(-f)) - y[:, None]
        elif self.task is Task.MULTICLASS:
            e = np.exp(f - f.max(axis=1, keepdims=True))
            g = e / e.sum(axis=1, keepdims=True) - np.eye(f.shape[1])[y.astype(int)]
        else:
            most = HUBER if self.task is Task.HUBER else LARGEST_RESIDUAL
            g = np.clip(f - y[:, None], -most, most)
        g = g * (weight / weight.sum())[:, None]
        slopes = []
        for layer in (2, 1, 0):
            slopes.insert(0, np.vstack([units[layer].T @ g, g.sum(axis=0)]))
            g = (g @ self.layers[layer][:-1].T) * (1 - units[layer] ** 2)
        self.steps += 1
        t = self.steps
        rate = RATE / np.sqrt(1 + t / HALF) * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        for w, m, v, slope in zip(self.layers, self.means, self.squares, slopes, strict=True):
            m += 0.1 * (slope - m)
            v += 0.001 * (slope**2 - v)
            w -= rate * m / (np.sqrt(v) + 1e-7)
