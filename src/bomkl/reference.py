"""The paper and every algorithm it compares, line by line in NumPy: slow, obvious, and the oracle of the tests.

One rule is one function named after its algorithm; paper symbols (eta, alpha, beta, rho, tau) keep their names. The
conventions are the paper's: a zero score is a mistake, the sign of zero is +1, all scores are those before the update.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bomkl.combiners import Combiner, Hedge
from bomkl.kernels import Cauchy, Exponential, Gaussian, KernelLike, Laplacian
from bomkl.learners import BOGD, BPAS, FOGD, NOGD, PA, RBP, SPA, Forgetron, Learner, Perceptron, Projectron

Vector = NDArray[np.float64]

SELECTION, SAMPLING, VICTIM, FREQUENCY, TAXICAB_FREQUENCY, FREQUENCY_FACTOR = range(6)
"""What a random number decides: a kernel's turn, SPA's coin Z, the row that RBP drops, and FOGD's frequencies."""


def uniform_draw(seed: int, t: int, kernel: int, output: int, purpose: int) -> float:
    """Draw a number in [0, 1) that depends on nothing but its arguments (Philox, a counter-based generator)."""
    key = np.array([seed, 0], dtype=np.uint64)
    counter = np.array([t, kernel // 4, purpose, output], dtype=np.uint64)
    word = int(np.random.Philox(key=key, counter=counter).random_raw(4)[kernel % 4])
    return (word >> 11) * 2.0**-53


def left_sum(values: Iterable[float]) -> float:
    """Add from left to right, rounding each time as the engine does; `sum` compensates since Python 3.12."""
    return float(reduce(add, values, 0.0))


def sign(value: float) -> float:
    """Sign of a score; that of zero is +1."""
    return 1.0 if value >= 0 else -1.0


@dataclass
class Expansion:
    """One kernel's function f(x) = sum_j coefficients[j] k(rows[j], x), oldest support row first."""

    kernel: KernelLike
    budget: float = math.inf
    rows: list[Vector] = field(default_factory=list)
    coefficients: list[float] = field(default_factory=list)
    # The Forgetron's M (mistakes so far) and Q (how much of (15/32) M its shrinking has used up).
    errors: int = 0
    damage: float = 0.0
    # NOGD's features of the kernel values, one a row, from the moment the budget is full.
    nystrom: Vector | None = None

    def __call__(self, x: Vector) -> float:
        """Value at x."""
        return left_sum(c * k for c, k in zip(self.coefficients, self.values(x), strict=True))

    @property
    def full(self) -> bool:
        """Whether one more row would break the budget."""
        return len(self.rows) >= self.budget

    def matrix(self, X: Sequence[Vector], Z: Sequence[Vector]) -> Vector:
        """Kernel matrix."""
        return np.asarray(self.kernel(np.array(X), np.array(Z)), dtype=np.float64)

    def values(self, x: Vector) -> Vector:
        """k(x, z) for every support row z."""
        return self.matrix([x], self.rows)[0] if self.rows else np.zeros(0)

    def square(self, x: Vector) -> float:
        """k(x, x)."""
        return float(self.matrix([x], [x])[0, 0])

    def add(self, x: Vector, coefficient: float) -> None:
        """Append a support row."""
        self.rows.append(x)
        self.coefficients.append(coefficient)

    def drop(self, r: int) -> float:
        """Remove support row number r and return its coefficient."""
        del self.rows[r]
        return self.coefficients.pop(r)

    def scale(self, factor: float) -> None:
        """Multiply the whole function."""
        self.coefficients = [c * factor for c in self.coefficients]

    def shift(self, change: Vector) -> None:
        """Add to the coefficients."""
        self.coefficients = [c + float(d) for c, d in zip(self.coefficients, change, strict=True)]


@dataclass
class FourierFunction(Expansion):
    """One kernel's function f(x) = w.z(x) of its random Fourier features z(x) (Rahimi and Recht 2007)."""

    n_frequencies: int = 1
    seed: int = 0
    weights: Vector | None = None
    drawn: Vector | None = None

    def __call__(self, x: Vector) -> float:
        """Value at x."""
        return 0.0 if self.weights is None else float(self.weights @ self.features(x))

    def features(self, x: Vector) -> Vector:
        """Cosines, then sines, of u.x for every frequency u; their squares add up to one."""
        if self.drawn is None:
            self.drawn = np.array([self.frequency(r, len(x)) for r in range(self.n_frequencies)])
        angles = self.drawn @ x
        return np.concatenate([np.cos(angles), np.sin(angles)]) / math.sqrt(self.n_frequencies)

    def descend(self, x: Vector, step: float) -> None:
        """Add a multiple of the features of x to the weights."""
        before = np.zeros(2 * self.n_frequencies) if self.weights is None else self.weights
        self.weights = before + step * self.features(x)

    def frequency(self, r: int, n_features: int) -> Vector:
        """Frequency r: a draw that all kernels share, times a factor that is the kernel's own."""
        draw = partial(uniform_draw, self.seed, r, output=0)
        u, v = draw(kernel=0, purpose=FREQUENCY_FACTOR), draw(kernel=1, purpose=FREQUENCY_FACTOR)
        if isinstance(self.kernel, Laplacian):
            columns = [draw(kernel=j, purpose=TAXICAB_FREQUENCY) for j in range(n_features)]
            return self.kernel.gamma * np.tan(np.pi * (np.array(columns) - 0.5))
        pairs = [
            box_muller(draw(kernel=j, purpose=FREQUENCY), draw(kernel=j + 1, purpose=FREQUENCY))
            for j in range(0, n_features, 2)
        ]
        normal = np.concatenate(pairs)[:n_features]
        if isinstance(self.kernel, Gaussian):
            return normal / self.kernel.sigma
        if isinstance(self.kernel, Cauchy):  # a mixture of Gaussians, by the exponential distribution
            return math.sqrt(-2 * math.log1p(-u)) / self.kernel.sigma * normal
        if isinstance(self.kernel, Exponential):  # the multivariate Cauchy distribution
            return normal / (abs(float(box_muller(u, v)[0])) * self.kernel.sigma)
        raise TypeError(f"{self.kernel!r} has no Fourier transform")


def box_muller(u: float, v: float) -> Vector:
    """Two normal numbers from two uniform ones."""
    return math.sqrt(-2 * math.log1p(-u)) * np.array([math.cos(2 * math.pi * v), math.sin(2 * math.pi * v)])


class Example(NamedTuple):
    """A row as one kernel's learner sees it.

    y is the label +1 or -1 and loss the hinge loss; in regression they are the sign of the residual and the
    epsilon-insensitive loss. descent is the negative gradient that BOGD follows. scale is what divides the loss in a
    step: k(x, x), or 1 as in the paper's tables. draw gives a random number in [0, 1) for a purpose.
    """

    x: Vector
    y: float
    margin: float
    loss: float
    descent: float
    weight: float
    scale: float
    draw: Callable[[int], float]


def perceptron(f: Expansion, example: Example, _: Perceptron) -> None:
    """Add each mistake with coefficient y (Rosenblatt 1958)."""
    if example.margin <= 0:
        add_or_replace(f, example.x, example.weight * example.y)


def passive_aggressive(f: Expansion, example: Example, learner: PA | BPAS) -> None:
    """PA-I (Crammer et al. 2006), at the budget BPA-S (Wang & Vucetic 2010); regression as in Sahoo et al. 2014."""
    if example.loss > 0:
        tau = pa_step(learner.C * example.weight, example)
        add_or_replace(f, example.x, tau * example.y, isinstance(learner, BPAS) and learner.unit_norm)


def sparse_passive_aggressive(f: Expansion, example: Example, learner: SPA) -> None:
    """SPA, Algorithm 1 of the paper: a row is kept with probability rho, and its step is that much larger."""
    if example.loss > 0:
        rho = min(learner.alpha, example.loss) / learner.beta
        if example.draw(SAMPLING) < rho:
            tau = pa_step(learner.eta * example.weight / rho, example)
            add_or_replace(f, example.x, tau * example.y)


def pa_step(largest: float, example: Example) -> float:
    """PA-I's tau: as far as the loss asks for, but no further than `largest`."""
    return min(largest, example.loss / example.scale if example.scale > 0 else math.inf)


LARGEST_UNIT_COEFFICIENT = 1e6
"""Where BPA-S stops coefficients that grow because k(x, x) counts as 1 and is larger."""

LARGEST_DAMAGE = 1e300
"""Where the Forgetron's damage stops, which sums of kernel values close to the largest number could take beyond it."""


def add_or_replace(f: Expansion, x: Vector, coefficient: float, unit_norm: bool = False) -> None:
    """Add a row; at the budget it takes over the projection of the row that costs least to drop (BPA-S).

    With unit_norm, k(x, x) counts as 1 for every row.
    """
    if f.full:
        k_tt, k_t = 1.0 if unit_norm else f.square(x), f.values(x)
        k_rr = [1.0 if unit_norm else f.square(z) for z in f.rows]
        kept = [k_rt**2 / k_tt if k_tt > 0 else 0.0 for k_rt in k_t]
        cost = [c**2 * (norm - kept_r) for c, norm, kept_r in zip(f.coefficients, k_rr, kept, strict=True)]
        r = int(np.argmin(cost))
        c_r = f.drop(r)
        coefficient += c_r * float(k_t[r]) / k_tt if k_tt > 0 else 0.0
    if unit_norm:
        coefficient = min(max(coefficient, -LARGEST_UNIT_COEFFICIENT), LARGEST_UNIT_COEFFICIENT)
    f.add(x, coefficient)


def random_budget_perceptron(f: Expansion, example: Example, _: RBP) -> None:
    """RBP (Cavallanti et al. 2007): at the budget a mistake evicts a row drawn uniformly."""
    if example.margin <= 0:
        if f.full:
            f.drop(math.floor(example.draw(VICTIM) * len(f.rows)))
        f.add(example.x, example.weight * example.y)


def forgetron(f: Expansion, example: Example, learner: Forgetron) -> None:
    """Self-tuned Forgetron (Dekel et al. 2005): beyond the budget shrink all by phi, then forget the oldest row."""
    if example.margin <= 0:
        f.add(example.x, example.weight * example.y)
        f.errors += 1
        if len(f.rows) > f.budget:
            sigma = abs(f.coefficients[0])
            mu = sign(f.coefficients[0]) * f(f.rows[0])
            a, b = min(max(sigma**2 - 2 * sigma * mu, -LARGEST_DAMAGE), LARGEST_DAMAGE), 2 * sigma
            # the damage never exceeds 15/32 of the mistakes before, but for the rounding of numbers that are huge
            q = min(f.damage - 15 / 32 * f.errors, -0.25)
            phi = forgetron_shrinkage(a, b, q, learner.may_grow)
            f.damage = min(max(f.damage + (a * phi**2 + b * phi), -LARGEST_DAMAGE), LARGEST_DAMAGE)
            f.scale(phi)
            f.drop(0)


def forgetron_shrinkage(a: float, b: float, q: float, may_grow: bool = False) -> float:
    """Largest phi in (0, 1] with a phi^2 + b phi + q <= 0, given b > 0 > q.

    May it grow, then the smallest phi > 1 where the inequality holds again, if there is one.
    """
    if a + b + q <= 0:
        return 1.0
    if a == 0:
        return -q / b
    root = math.sqrt(b * b - 4 * a * q)
    if math.isinf(root):
        return math.sqrt(-q) / math.sqrt(a)  # beside such an a and q, b is nothing
    phi = (-b - root if may_grow and a < 0 else -b + root) / (2 * a)
    return phi if phi > 0 else -q / b  # beside such a b, a is nothing


def bounded_gradient_descent(f: Expansion, example: Example, learner: BOGD) -> None:
    """BOGD (Zhao et al. 2012; squared loss: Sahoo et al. 2014): decay, descend, at the budget drop the oldest row."""
    f.scale(1 - learner.eta * learner.regularization)
    if example.descent != 0:
        if f.full:
            f.drop(0)
        f.add(example.x, learner.eta * example.weight * example.descent)


def projectron(f: Expansion, example: Example, learner: Projectron) -> None:
    """Projectron and Projectron++ (Orabona et al. 2009): project x on the support's span where that loses little."""
    mistake, inside_margin = example.margin <= 0, 0 < example.margin < 1
    if not (mistake or (inside_margin and learner.margin_updates)):
        return
    k_t = f.values(example.x)
    d = _projection(f.matrix(f.rows, f.rows), k_t) if f.rows else np.zeros(0)
    projected = float(k_t @ d)
    distance = math.sqrt(max(0.0, f.square(example.x) - projected))
    if mistake and f.rows and (distance <= learner.threshold or f.full):
        f.shift(example.weight * example.y * d)
    elif mistake:
        # With no support yet, a row of length zero is the zero function: nothing to add, and no Gram matrix to invert.
        if distance > 0:
            f.add(example.x, example.weight * example.y)
    else:
        room = example.loss - distance / learner.threshold
        if room > 0 and projected > 0:
            tau = min(example.loss / projected, 2 * room / projected, 1.0)
            f.shift(example.weight * example.y * tau * d)


def _projection(K: Vector, k_t: Vector) -> Vector:
    """Solve K d = k_t for rows of length one, so that lstsq does not take a tiny row beside a huge one for rounding."""
    length = np.sqrt(np.abs(np.diag(K)))
    length[length == 0] = 1.0
    return np.asarray(np.linalg.lstsq(K / length / length[:, None], k_t / length)[0] / length, dtype=np.float64)


def fourier_gradient_descent(f: Expansion, example: Example, learner: FOGD) -> None:
    """FOGD (Lu et al. 2016): gradient descent on the weights of random Fourier features."""
    step = example.descent if math.isnan(example.margin) else (example.y if example.loss > 0 else 0.0)
    if step != 0:
        assert isinstance(f, FourierFunction)
        f.descend(example.x, learner.eta * example.weight * step)


def nystrom_gradient_descent(f: Expansion, example: Example, learner: NOGD) -> None:
    """NOGD (Lu et al. 2016): kernel gradient descent until the budget is full, from then on in Nystrom features.

    With K = V diag(d) V' the kernel matrix of the support, cut to the largest d, the features of x are
    z = diag(d)^(-1/2) V' k(x). The function w.z(x) is that of coefficients V diag(d)^(-1/2) w.
    """
    step = example.descent if math.isnan(example.margin) else (example.y if example.loss > 0 else 0.0)
    if step == 0:
        return
    step *= learner.eta * example.weight
    if f.nystrom is not None:
        f.shift(step * (f.nystrom.T @ (f.nystrom @ f.values(example.x))))
        return
    f.add(example.x, step)
    if f.full:
        rank = max(1, math.floor(learner.rank * len(f.rows) + 0.5))
        d, V = np.linalg.eigh(f.matrix(f.rows, f.rows))
        largest = [i for i in range(len(d) - 1, len(d) - 1 - rank, -1) if d[i] > SMALLEST_EIGENVALUE * d[-1]]
        f.nystrom = V[:, largest].T / np.sqrt(d[largest])[:, None]
        f.coefficients = list(V[:, largest] @ (V[:, largest].T @ np.array(f.coefficients)))


SMALLEST_EIGENVALUE = 1e-10
"""Of the largest: what NOGD takes as zero."""

RULES: dict[type, Callable[[Expansion, Example, Any], None]] = {
    Perceptron: perceptron,
    PA: passive_aggressive,
    BPAS: passive_aggressive,
    SPA: sparse_passive_aggressive,
    RBP: random_budget_perceptron,
    Forgetron: forgetron,
    BOGD: bounded_gradient_descent,
    Projectron: projectron,
    FOGD: fourier_gradient_descent,
    NOGD: nystrom_gradient_descent,
}


def loss_of(name: str, y: float, fx: float, epsilon: float) -> float:
    """Loss of a score by its name."""
    if name == "zero_one":
        return 1.0 if y * fx <= 0 else 0.0
    if name == "hinge":
        return max(0.0, 1 - y * fx)
    return (y - fx) ** 2 if name == "squared" else max(0.0, abs(y - fx) - epsilon)


def relative_weights(log_weights: Sequence[float]) -> list[float]:
    """Weights divided by the largest of them, which may itself be too small for a float."""
    return [math.exp(lw - max(log_weights)) for lw in log_weights]


class ReferenceMKL:
    """Budget online multiple kernel learning, one row at a time (Hoi et al. 2013 and the paper's Algorithm 1).

    Parameters are those of the estimators; `seed` is the key of every random draw. Binary labels are -1 and +1,
    multiclass labels 0 to n_outputs - 1, learned one against the rest.

    Attributes
    ----------
    expansions : list of list of Expansion
        Per output and kernel: the support rows and coefficients in order of insertion.
    log_weights : list of list of float
        Per output and kernel: the logarithm of the combination weight, up to a constant per output.
    kernel_mistakes : list of list of int
        Per output and kernel: rows whose sign that kernel alone got wrong.
    mistakes, n_seen : int
        Rows that the combination got wrong, and rows learned from.

    Examples
    --------
    >>> from bomkl.combiners import Hedge
    >>> from bomkl.kernels import Linear
    >>> from bomkl.learners import Perceptron
    >>> model = ReferenceMKL([Linear()], Perceptron(), Hedge(loss="zero_one"))
    >>> [float(model.learn_one([x], y)[0]) for x, y in [(1.0, 1), (2.0, 1), (-3.0, -1)]]
    [0.0, 2.0, -3.0]
    """

    def __init__(
        self,
        kernels: Sequence[KernelLike],
        learner: Learner,
        combiner: Combiner,
        combination: str = "score",
        selection_delta: float | Callable[[int], float] | None = None,
        selection_scope: str = "update",
        normalize_step: bool = False,
        budget: int | None = None,
        seed: int = 0,
        task: str = "binary",
        n_outputs: int = 1,
        epsilon: float = 0.1,
    ) -> None:
        self.learner, self.combiner, self.combination = learner, combiner, combination
        self.selection_delta, self.selection_scope = selection_delta, selection_scope
        self.normalize_step, self.seed, self.task, self.epsilon = normalize_step, seed, task, epsilon
        capacity = math.inf if budget is None else budget
        self.expansions = [[self._function(kernel, capacity) for kernel in kernels] for _ in range(n_outputs)]
        self.log_weights = [[-math.log(len(kernels)) for _ in kernels] for _ in range(n_outputs)]
        self.kernel_mistakes = [[0 for _ in kernels] for _ in range(n_outputs)]
        self.mistakes = 0
        self.n_seen = 0

    def _function(self, kernel: KernelLike, capacity: float) -> Expansion:
        if isinstance(self.learner, FOGD):
            return FourierFunction(kernel, capacity, n_frequencies=self.learner.n_frequencies, seed=self.seed)
        return Expansion(kernel, capacity)

    def score_one(self, x: Any) -> Vector:
        """Score of every output with all kernels."""
        row = np.asarray(x, dtype=np.float64)
        every = [True for _ in self.expansions[0]]
        return np.array([self._combine(c, [f(row) for f in fs], every) for c, fs in enumerate(self.expansions)])

    def learn_one(self, x: Any, y: float, weight: float = 1.0) -> Vector:
        """Score a row, then learn from it; a row of weight zero is scored and leaves no trace."""
        row, outputs = np.asarray(x, dtype=np.float64), range(len(self.expansions))
        labels = [(1.0 if y == c else -1.0) if self.task == "multiclass" else float(y) for c in outputs]
        scores = np.array([self._learn_output(c, row, labels[c], weight) for c in outputs])
        if weight > 0:
            if self.task == "binary":
                self.mistakes += bool(y * scores[0] <= 0)
            elif self.task == "multiclass":
                self.mistakes += bool(np.argmax(scores) != y)
            self.n_seen += 1
        return scores

    def _learn_output(self, c: int, x: Vector, y: float, weight: float) -> float:
        fx = [f(x) for f in self.expansions[c]]
        selected, every = self._select(c), [True for _ in fx]
        score = self._combine(c, fx, every if self.selection_scope == "update" else selected)
        if weight == 0:
            return score
        active = every if self.selection_scope == "combination" else selected
        for i, f in enumerate(self.expansions[c]):
            if self.task != "regression":
                self.kernel_mistakes[c][i] += y * fx[i] <= 0
            if active[i]:
                example = self._example(f, x, y, fx[i], weight, partial(uniform_draw, self.seed, self.n_seen, i, c))
                RULES[type(self.learner)](f, example, self.learner)
        if isinstance(self.combiner, Hedge):
            self._discount(self.combiner, c, y, fx, weight, active)
        return score

    def _select(self, c: int) -> list[bool]:
        """Bernoulli trial of every kernel: the heavier its weight the likelier, never less than delta."""
        weights = relative_weights(self.log_weights[c])
        if self.selection_delta is None:
            return [True for _ in weights]
        delta = self.selection_delta(self.n_seen + 1) if callable(self.selection_delta) else self.selection_delta
        draws = [uniform_draw(self.seed, self.n_seen, i, c, SELECTION) for i in range(len(weights))]
        return [u < (1 - delta) * w + delta for u, w in zip(draws, weights, strict=True)]

    def _combine(self, c: int, fx: list[float], used: list[bool]) -> float:
        weights = relative_weights(self.log_weights[c])
        total = left_sum(weights)
        voices = [sign(f) for f in fx] if self.combination == "vote" else fx
        return left_sum(w / total * voice for w, voice, u in zip(weights, voices, used, strict=True) if u)

    def _example(
        self, f: Expansion, x: Vector, y: float, fx: float, weight: float, draw: Callable[[int], float]
    ) -> Example:
        scale = f.square(x) if self.normalize_step else 1.0
        if self.task == "regression":
            loss = loss_of("epsilon_insensitive", y, fx, self.epsilon)
            return Example(x, sign(y - fx), math.nan, loss, y - fx, weight, scale, draw)
        margin = y * fx
        return Example(x, y, margin, loss_of("hinge", y, fx, 0.0), y if margin <= 1 else 0.0, weight, scale, draw)

    def _discount(self, hedge: Hedge, c: int, y: float, fx: list[float], weight: float, active: list[bool]) -> None:
        """Hedge (Freund & Schapire 1997), then fixed share (Herbster & Warmuth 1998)."""
        for i, f in enumerate(fx):
            if hedge.discount == "always" or active[i]:
                loss = loss_of(hedge.loss, y, f, self.epsilon)
                self.log_weights[c][i] += weight * loss * math.log(hedge.gamma)
        if hedge.share > 0:
            weights = relative_weights(self.log_weights[c])
            total = left_sum(weights)
            self.log_weights[c] = [math.log((1 - hedge.share) * (w / total) + hedge.share / len(fx)) for w in weights]
