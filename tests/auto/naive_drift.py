"""Experts that follow drift in NumPy and double precision: what ``cpp/auto/drift/*.hpp`` does, without its haste."""

import numpy as np

from bomkl.auto.components.combination import Combination, centred
from bomkl.auto.task import HUBER, Task

NEAREST, LAST, DRAWN, WINDOW = 5, 1000, 4000, 200
MOST_NUMBERS, FEWEST = 40_000, 100
BETS, LEVEL = np.array([0.02, 0.05, 0.1, 0.2, 0.4]), 2000
FARTHEST, SHARE = 6.0, 0.02


def softmax(f):
    e = np.exp(np.maximum(f - f.max(), -15.0))
    return e / e.sum()


def softmax_of(logs):
    e = np.exp(logs - logs.max())
    return e / e.sum()


def means(f, task):
    """Probabilities of the classes, or the prediction itself."""
    if task is Task.BINARY:
        return 1 / (1 + np.exp(-np.clip(f, -15, 15)))
    return softmax(f) if task is Task.MULTICLASS else f


def scores_of(p, task):
    p = p if task.is_regression else np.maximum(p, 1e-12)
    return np.log(p / np.maximum(1 - p, 1e-12)) if task is Task.BINARY else np.log(p) if task is Task.MULTICLASS else p


def loss(f, target, task):
    """What the mixture loses; the target of a class is a row of zeros and a one."""
    if task.is_regression:
        r = abs(f[0] - target[0])
        return min(r - 0.5 * HUBER if task is Task.HUBER and r > HUBER else 0.5 * r * r, 10.0)
    p = means(f, task)
    return -np.log(p[0] if target[0] > 0.5 else 1 - p[0]) if task is Task.BINARY else -np.log(p @ target)


# ------------------------------------------------------------ nearest rows


def kept_rows(rows, columns, seed):
    """Numbers of the last rows and of the sample of those before them, (last, drawn): both in order of their places."""
    most = MOST_NUMBERS // columns
    last = int(np.clip(most // 2, FEWEST, LAST))
    drawn = min(DRAWN, max(most - last, 0))
    newest = {row % last: row for row in range(rows)}
    sample = {}
    for row in range(rows - last):
        place = row
        if row >= drawn:
            counter = (row - 1) % 2**256  # NumPy advances the counter before its first draw
            word = int(np.random.Philox(counter=counter, key=np.array([seed, 0], dtype=np.uint64)).random_raw())
            place = word * (row + 1) >> 64
        if place < drawn:
            sample[place] = row
    return [newest[i] for i in sorted(newest)], [sample[i] for i in sorted(sample)]


def nearest_votes(x, kept, y, among, base, task):
    """Scores of a row by the labels of the nearest of some kept rows."""
    if len(among) < NEAREST:
        return base
    distance = ((kept[among].astype(float) - x) ** 2).sum(axis=1)
    labels = y[among][np.argsort(distance, kind="stable")[:NEAREST]]
    if task.is_regression:
        return np.array([labels.mean()])
    if task is Task.BINARY:
        return np.log([(labels.sum() + 0.25) / (NEAREST - labels.sum() + 0.25)])
    counts = np.bincount(labels.astype(int), minlength=len(base)) + 0.5 / len(base)
    return np.log(counts / counts.sum())


# ------------------------------------------------------------ groups


class NaiveRegression:
    """Newton regression on the first features and a constant; every row changes mean and covariance at once."""

    def __init__(self, rank, ridge, outputs, task, loosen):
        self.w, self.P = np.zeros((outputs, rank)), np.eye(rank) / ridge
        self.limit, self.task, self.loosen = rank / ridge, task, loosen

    def score(self, x):
        return self.w @ x

    def learn(self, x, target, weight):
        v = self.P @ x
        q, f = x @ v, self.score(x)
        if self.task.is_regression:
            r = (target - f) / (1 + weight * q)
            step, h = weight * r, weight
            if self.task is Task.HUBER and abs(r[0]) > HUBER:
                step, h = np.sign(r) * weight * HUBER, weight * HUBER / max(abs(target - f)[0] - q * weight, HUBER)
            like = h
        else:
            p = self._implicit(f, target, q * weight)
            step = weight * (target - p)
            h = weight * max(1e-5, (p * (1 - p)).max())
            like = 4 * h
        c = h / (1 + h * q) - min(self.loosen * like, 0.5) / q
        c = max(c, min(0.0, (np.trace(self.P) - self.limit) / (v @ v)))
        self.w = self.w + np.outer(step, v)
        self.P = self.P - c * np.outer(v, v)

    def _implicit(self, f, target, reach):
        """Means at g = f + reach (target - p(g)): a few rounds, each output for itself."""
        g, low = f.copy(), f - reach * (1 - target)
        for _ in range(12):
            p = 1 / (1 + np.exp(-g)) if self.task is Task.BINARY else softmax(g)
            step = (f + reach * (target - p) - g) / (1 + reach * p * (1 - p))
            before, g = g, np.clip(g + step, low, low + reach)
            if np.abs(g - before).max() < 1e-6:
                break
        return p


class NaiveGroup:
    """Regressions on some features, and what combines them."""

    def __init__(self, regressions, task):
        self.regressions, self.task, self.combination = regressions, task, Combination.of(len(regressions))

    def _parts(self, rows):
        return centred(np.array([[each.score(x) for each, x in zip(self.regressions, rows, strict=True)]]), self.task)

    def score(self, rows):
        return self.combination.scores(self._parts(rows), self.task)[0]

    def learn(self, rows, target, weight):
        self.combination.score_and_learn(self._parts(rows), target[None], np.array([weight]), self.task)
        for each, x in zip(self.regressions, rows, strict=True):
            each.learn(x, target, weight)


# ------------------------------------------------------------ recent labels and evidence


class NaiveLabels:
    """Frequencies of labels, or means of targets, that fade by a factor a row."""

    def __init__(self, task, classes):
        self.task, self.past = task, []
        self.decays = (0.0, 0.5, 0.95) if task.is_regression else (0.0, 0.95)
        self.classes = classes

    def scores(self, base):
        y, weight = (np.array(each, dtype=float) for each in zip(*self.past, strict=True)) if self.past else ([], [])
        out = []
        for decay in self.decays:
            fading = np.array(weight) * float(decay) ** np.arange(len(weight))[::-1]
            if self.task.is_regression:
                out.append([np.sum(fading * y) / fading.sum()] if np.sum(fading) > 0 else base)
                continue
            always = np.bincount(np.array(y, int), weight, self.classes) + 1
            count = np.bincount(np.array(y, int), fading, self.classes) + 0.5 * always / always.sum()
            out.append(np.log(count[1:] / count[:1]) if self.task is Task.BINARY else np.log(count / count.sum()))
        return np.array(out)


class NaiveRise:
    """By how many standard errors the losses of the last 100 rows are above those of all rows before them."""

    def __init__(self):
        self.losses = []

    def add(self, each):
        self.losses.append(min(each, 3.0))
        before, window = np.array(self.losses[:-100]), self.losses[-100:]
        if len(before) < 200:
            return 0.0
        rise, variance = np.mean(window) - before.mean(), max(before.var(), 1e-6)
        errors = rise / np.sqrt(variance / 100)
        jump = np.mean((window - np.mean(window)) ** 3) / max(np.var(window), 1e-300)
        if errors <= 2.5 or jump <= 0:
            return errors
        rise, variance = rise - jump / len(before), variance + jump**2 / len(before)
        u = max(jump * rise / variance, 0)
        if 0 < u < 1e-3:
            return errors
        bennett = np.sqrt(2 * 100 * variance * ((1 + u) * np.log1p(u) - u)) / jump
        return min(errors, bennett * 4 / 3.2)

    def age(self):
        """Number of last rows whose losses, by least squares, are another level than those before the window."""
        rises = np.array(self.losses[:-101:-1]) - np.mean(self.losses[:-100])
        sums = np.maximum(np.cumsum(rises), 0)
        return 1 + int(np.argmax(sums**2 / np.arange(1, 101)))


class NaiveExperts:
    """What joins experts to a model, and the evidence that they are better."""

    def __init__(self, task, classes, groups=3, nearest=3):
        self.task, self.classes, self.others = task, classes, groups + nearest
        self.labels = NaiveLabels(task, classes)
        self.size = 1 + self.others + len(self.labels.decays) + 1
        self.mixture = np.eye(self.size - 1)[0]
        self.stack = Combination.of(self.size)
        self.stack.stack_w = self.stack.weights = np.eye(self.size)[0]
        self.stack.log_final = -1.0, -1.0, 0.0
        self.wealth, self.rise, self.weight, self.rows = np.ones((6, 5)), NaiveRise(), 0.0, 0
        self.error, self.errors = 0.0, 0
        self.evidence = self.rising = 0.0

    @property
    def unit(self):
        return 1.25 * self.error if self.task.is_regression and self.error > 0 else 1.0

    def parts(self, base, others):
        """Scores of all experts by those of the model and of the others, and the unit of numbers."""
        labels, wide = self.labels.scores(base), self.unit
        S = np.array([base, *others, *labels])
        if self.task.is_regression:
            wide = max(wide, np.abs(labels - base).max() / FARTHEST)
            S = np.clip((S - base) / wide, -FARTHEST, FARTHEST)
        S = centred(S[None], self.task)[0]
        mixed = scores_of(sum(w * means(f, self.task) for w, f in zip(self.mixture, S, strict=True)), self.task)
        return np.vstack([S, centred(mixed[None, None], self.task)[0]]), wide

    def losses(self, f, y, target, unit):
        """Loss and mistake; of numbers the loss alone."""
        if self.task.is_regression:
            return np.array([min(0.5 * ((f[0] - y) / unit) ** 2, 15.0), 0.0])
        if self.task is Task.BINARY:
            return np.array([loss(f, target, self.task), (f[0] if y > 0.5 else -f[0]) <= 0])
        return np.array([loss(f, target, self.task), np.argmax(f) != int(y)])

    def give_weights_back(self):
        """Experts that wake have weights for the scores of the model, which gets them."""
        waking = np.arange(3, 1 + self.others)
        for weights in (w := self.stack.stack_w.copy(), of_all := self.stack.weights.copy(), self.mixture):
            weights[..., 0] += weights[..., waking].sum(axis=-1)
            weights[..., waking] = 0
        self.stack.stack_w, self.stack.weights = w, of_all

    @property
    def sharpness(self):
        """By how much the square of the last errors is below that of the model's."""
        last = self.rise.losses[-100:]
        if not self.task.is_regression or len(last) < 20:
            return 1.0
        return max(0.5 / max(np.mean(last), 1e-8), 1.0)

    @staticmethod
    def sharper(losses, sharp):
        return np.minimum(sharp * losses, 10.0) if sharp > 1 else losses

    def learn_stack(self, S, target, weight, sharp):
        """Learn weights of the combination: those of Hedge by losses in the sharper unit."""
        stack = self.stack
        candidates = [*(stack.stack_w @ np.clip(S, -6, 6)), stack.weights @ S]
        before = [(stack.log_final.copy(), candidates), (np.log(np.maximum(stack.weights, 1e-300)), S)]
        stack.score_and_learn(S[None], target[None], np.array([weight]), self.task)
        if sharp == 1:
            return
        after = []
        for logs, said in before:
            losses = self.sharper(np.array([loss(f, target, self.task) for f in said]), sharp)
            after.append(0.999 * softmax_of(logs - weight * losses) + 0.001 / len(said))
        stack.log_final, stack.weights = np.log(after[0]), after[1]

    def learn(self, base, others, y, weight):
        """Score a row, before learning it: `others` are the scores of groups and nearest rows."""
        S, wide = self.parts(base, others)
        unit, first = self.unit, self.rows == 0
        said = self.stack.scores(S[None], self.task)[0]
        said = base + wide * said if self.task.is_regression else said
        target = np.array([y]) if self.task is not Task.MULTICLASS else np.eye(self.classes)[int(y)]
        own = target
        if self.task.is_regression:
            target = np.clip((target - base) / wide, -FARTHEST, FARTHEST)
        self.weight, self.rows = self.weight + weight, self.rows + 1
        relative = min(weight * self.rows / self.weight, 100.0)
        self.labels.past.append((y, relative))
        self.evidence = self.rising = 0.0
        if first and self.task.is_regression:
            return said
        sharp = self.sharpness
        self.learn_stack(S, target, relative, sharp)
        losses = self.sharper(np.array([loss(f, target, self.task) for f in S[:-1]]), sharp)
        mixture = self.mixture * np.exp(-relative * (losses - losses.min()))
        self.mixture = (1 - SHARE) * mixture / mixture.sum() + SHARE / len(mixture)
        of_model = self.losses(base, y, own, unit)
        of_all = self.losses(said, y, own, unit)
        gains = [of_model - each for each in (of_all, *(self.losses(each, y, own, unit) for each in others[:2]))]
        for i, gain in enumerate(np.concatenate(gains)):
            self.wealth[i] = np.maximum(self.wealth[i], 1) * (1 + BETS * np.clip(gain, -1, 1))
            self.evidence = max(self.evidence, self.wealth[i].mean())
            if self.wealth[i].mean() > LEVEL:
                self.wealth[i] = 1
        if not self.task.is_regression or self.errors:  # before the first error there is no unit
            self.rising = self.rise.add(of_all[0])
        if self.task.is_regression:
            self.error += max(0.01, 4 / (self.errors + 4)) * (abs(base[0] - y) - self.error)
            self.errors += 1
        return said
