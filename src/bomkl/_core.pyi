from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

class NotFiniteError(ValueError): ...

class Engine32:
    def __init__(self, config: dict[str, Any], features: int, sparse: bool, call_kernel: Any) -> None: ...
    def fork(self) -> Engine32: ...
    def learn(self, x: Any, target: Any, weight: Any, delta: Any, n_threads: int) -> NDArray[np.float64]: ...
    def learn_one(self, x: NDArray[Any], target: float, delta: float | None) -> Any: ...
    def score_one(self, x: NDArray[Any]) -> Any: ...
    def score(self, x: Any, per_kernel: bool, n_threads: int) -> NDArray[np.float64]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: dict[str, Any]) -> None: ...
    def frequencies(self, kernel: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def n_support(self) -> list[int]: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def n_seen(self) -> int: ...
    @property
    def mistakes(self) -> int: ...
    @property
    def kernel_mistakes(self) -> list[int]: ...
    @property
    def log_weights(self) -> list[float]: ...
    @property
    def bytes(self) -> int: ...

class Engine64(Engine32): ...

class OneBlasThread:
    def __init__(self, limit: Callable[[bool], None]) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

def before_fork() -> None: ...
def after_fork_in_parent() -> None: ...
def after_fork_in_child() -> None: ...
def instruction_sets() -> list[str]: ...
def instruction_set() -> str: ...
def exp_many(x: NDArray[np.float32] | NDArray[np.float64]) -> None: ...
def parse_svmlight(
    data: bytes, start: int, max_rows: int, base: int, labels_required: bool, skip_bad_lines: bool
) -> tuple[
    NDArray[np.float64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.float64],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int64],
    int,
    int,
]: ...

BLOCK: int

Single = NDArray[np.float32]
Double = NDArray[np.float64]

def matmul(a: Single, packed: Single, out: Single) -> None: ...
def views(
    x: Double,
    mean: Double,
    deviation: Double,
    middle: Double,
    common: float,
    sorted: Double,
    table: Double,
    normal_mean: Double,
    normal_deviation: Double,
    axes: Single,
    relevance_standard: Single,
    relevance_normal: Single,
    clip: float,
    far: float,
    leading: int,
    out: list[Single | None],
) -> None: ...
def normal_scores(
    x: Double, sorted_columns: Double, table: Double, mean: Double, deviation: Double, out: Single
) -> None: ...
def code_rows(x: Double, cuts: Double, starts: NDArray[np.int64], out: NDArray[np.uint8]) -> None: ...
def sample_places(seed: int, first: int, size: int, places: NDArray[np.int64]) -> None: ...

class GrowingBoosted:
    trees: int
    def until(self, count: int) -> None: ...
    def result(self) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], Single, Double]: ...

class GrowingForest:
    trees: int
    def until(self, count: int) -> None: ...
    def result(self) -> tuple[NDArray[np.int32], NDArray[np.int32], Single]: ...

def grow_boosted(
    codes: NDArray[np.uint8],
    y: Double,
    weight: Double,
    task: int,
    rounds: int,
    leaves: int,
    least_rows: int,
    rate: float,
    ridge: float,
    columns: float,
    seed: int,
) -> GrowingBoosted: ...
def boosted_scores(
    nodes: NDArray[np.int32],
    roots: NDArray[np.int32],
    outputs: NDArray[np.int32],
    values: Single,
    base: Double,
    codes: NDArray[np.uint8],
    scores: Double,
) -> None: ...
def grow_forest(
    codes: NDArray[np.uint8], y: Double, weight: Double, task: int, trees: int, tries: int, least_rows: int, seed: int
) -> GrowingForest: ...
def forest_rows(
    nodes: NDArray[np.int32],
    roots: NDArray[np.int32],
    table: Single,
    prior: Double,
    open_leaves: NDArray[np.int32],
    open_y: Double,
    open_weight: Double,
    task: int,
    codes: NDArray[np.uint8],
    y: Double,
    weight: Double,
    open: int,
    to_boundary: int,
    scores: Double,
) -> int: ...
def forest_scores(
    nodes: NDArray[np.int32],
    roots: NDArray[np.int32],
    table: Single,
    prior: Double,
    open_leaves: NDArray[np.int32],
    open_y: Double,
    open_weight: Double,
    task: int,
    codes: NDArray[np.uint8],
    open: int,
    scores: Double,
) -> None: ...
def close_forest(
    nodes: NDArray[np.int32],
    roots: NDArray[np.int32],
    table: Single,
    prior: Double,
    open_leaves: NDArray[np.int32],
    open_y: Double,
    open_weight: Double,
    task: int,
    open: int,
) -> None: ...
def trees_are_sound(nodes: NDArray[np.int32], roots: NDArray[np.int32], leaves: int, columns: int) -> bool: ...
def kernel_features(
    x: Single, kernel: int, scale: float, landmarks: Single, norms: Single, whiten: Single, rank: int, out: Single
) -> None: ...
def newton_rows(
    w: Double,
    P: Single,
    rows: Single,
    U: Single,
    M: Double,
    c: Double,
    a: Double,
    V: Single,
    trace: Double,
    features: Single,
    y: Double,
    weight: Double,
    task: int,
    loosen: float,
    open: int,
    to_boundary: int,
    scores: Double,
) -> int: ...
def close_block(
    w: Double, P: Single, rows: Single, U: Single, M: Double, c: Double, a: Double, V: Single, trace: Double, open: int
) -> None: ...
def current_means(
    w: Double,
    P: Single,
    rows: Single,
    U: Single,
    M: Double,
    c: Double,
    a: Double,
    V: Single,
    trace: Double,
    open: int,
    out: Double,
) -> None: ...

class OneRow:
    def __init__(
        self,
        learner: Any,
        relevance_standard: Single,
        relevance_normal: Single,
        views: list[int],
        clip: float,
        far: float,
        largest: float,
        leading: int,
        share: float,
        outputs: int,
        task: int,
        forget: float,
        error_rows: Double,
        places: NDArray[np.int64],
    ) -> None: ...
    def score(self, x: Double) -> float | Double | None: ...
    def learn(
        self, learner: Any, x: Double, y: float, target: float, weight: float, counts: dict[str, Any]
    ) -> float | Double | None: ...
    def learn_scored(self, learner: Any, y: float, target: float, weight: float) -> None: ...

def in_one_step(
    changed: Any, calls: list[tuple[Any, tuple[Any, ...]]], holder: dict[str, Any], updates: dict[str, Any]
) -> bool: ...
def linear_scores(features: Single, w: Double, rank: int, out: Double) -> None: ...
def bend_targets(curve: Double, targets: Double, out: Double) -> None: ...
def straighten_scores(curve: Double, scores: Double) -> None: ...
def combine_scores(
    w: Double, P: Double, weights: Double, log_final: Double, scores: Double, task: int, out: Double
) -> None: ...
def combine_rows(
    w: Double,
    P: Double,
    weights: Double,
    log_final: Double,
    share: float,
    scores: Double,
    y: Double,
    weight: Double,
    task: int,
    loss_sum: Double,
    error_sum: Double,
    out: Double,
) -> None: ...

ROUND_BLOCK: int

Whole = NDArray[np.int64]

def component_sums(
    features: Single,
    rank: int,
    w: Double,
    y: Double,
    weight: Double,
    task: int,
    log_rows: int,
    scores: Double,
    information: Whole,
    coarse: Whole,
    fine: Whole,
) -> None: ...
def kernel_sums(
    x: Single,
    kernel: int,
    scale: float,
    landmarks: Single,
    norms: Single,
    whiten: Single,
    map_rank: int,
    rank: int,
    w: Double,
    y: Double,
    weight: Double,
    task: int,
    log_rows: int,
    scores: Double,
    information: Whole,
    coarse: Whole,
    fine: Whole,
) -> None: ...
def combination_sums(
    w: Double,
    P: Double,
    weights: Double,
    log_final: Double,
    scores: Double,
    y: Double,
    weight: Double,
    task: int,
    log_rows: int,
    out: Double,
    coarse: Whole,
    fine: Whole,
) -> None: ...
def add_triangle(matrix: Double, triangle: Whole, log_rows: int, out: Double) -> None: ...
def solve_symmetric(A: Double, b: Double) -> bool: ...
def round_units(log_rows: int) -> tuple[float, float, float]: ...
def wide_rows(
    rate: Double,
    w: Single,
    S: Double,
    bias: Double,
    bias_sum: Double,
    active: Double,
    fade: Double,
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: Double,
    y: Double,
    weight: Double,
    task: int,
    forget: float,
    scores: Double,
) -> None: ...
def wide_scores(
    rate: Double,
    w: Single,
    S: Double,
    bias: Double,
    bias_sum: Double,
    active: Double,
    fade: Double,
    starts: NDArray[np.int64],
    places: NDArray[np.int32],
    values: Double,
    scores: Double,
) -> None: ...
def sketch_rows(
    starts: NDArray[np.int64], columns: NDArray[np.int32], values: Double, seed: int, out: Double
) -> None: ...
