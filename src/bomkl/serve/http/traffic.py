"""Requests: how many, how fast, and what was answered."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SAMPLES = 300


class Traffic:
    """Counts requests; one sample a second is kept for five minutes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "bomkl_requests", "Requests by route and status.", ["route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "bomkl_request_seconds",
            "Seconds from a request to its answer.",
            ["route"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.samples: deque[dict[str, float | None]] = deque(maxlen=_SAMPLES)
        self.predicted = 0
        self._latencies: deque[float] = deque(maxlen=10_000)  # since the last sample
        self._before: tuple[float, int, int] | None = None
        self._of_kind: dict[tuple[str, int], tuple[Counter, Histogram]] = {}  # to look them up takes longer

    def count(self, route: str, status: int, seconds: float) -> None:
        if (found := self._of_kind.get((route, status))) is None:
            found = self._of_kind[route, status] = self._requests.labels(route, status), self._seconds.labels(route)
        requests, histogram = found
        requests.inc()
        histogram.observe(seconds)
        if route.startswith("/v1/") and route != "/v1/events":
            self._latencies.append(seconds)

    def sample(self, rows: int) -> None:
        """Take the sample of a second; `rows` have been learned so far."""
        now = time.monotonic()
        then, rows_then, predicted_then = self._before or (now, rows, self.predicted)
        passed = max(now - then, 1e-3)
        # a second without requests has no latency
        p50, p99 = np.quantile(self._latencies, [0.5, 0.99]).tolist() if self._latencies else (None, None)
        self._latencies.clear()
        self.samples.append(
            {
                "at": time.time(),
                "rows_per_second": (rows - rows_then) / passed,
                "predictions_per_second": (self.predicted - predicted_then) / passed,
                "latency_p50": p50,
                "latency_p99": p99,
            }
        )
        self._before = (now, rows, self.predicted)


class Figures:
    """A registry of the figures of the model at one moment."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def collect(self) -> Iterator[Metric]:
        state, labels = self.state, self.state["labels"]
        ignored = sum(state["ignored_columns"].values())
        for name, text, count in (
            ("rows_learned", "Rows learned.", state["rows"]),
            ("rows_refused", "Rows in the log that the model refused.", state["refused"]),
            ("drift_events", "Changes of the stream that the model has noticed.", len(state["drift_events"])),
            ("cells_ignored", "Cells of columns that the model has no place for.", ignored),
            ("rows_expired", "Rows that were forgotten without a label.", labels["expired"]),
        ):
            yield CounterMetricFamily(f"bomkl_{name}", text, count)
        for name, text, value in (
            ("rows_waiting", "Rows that wait for their label.", labels["waiting"]),
            ("rows_queued", "Rows that wait to be learned or predicted.", state["queued"]),
            ("error", "Mean error of all rows, each predicted before it was learned from.", state["error"]),
            ("window_error", "Mean error of the last 1000 rows.", state["window_error"]),
            ("baseline_error", "Mean error of the baseline.", state["baseline_error"]),
            ("drift", "1 while the last 1000 rows have more errors than expected.", int(state["drift"]["now"])),
            ("model_bytes", "Memory of the learned arrays.", state["memory"]["model_bytes"]),
        ):
            yield GaugeMetricFamily(f"bomkl_{name}", text, value)
        if (source := state["source"]) is not None:
            yield GaugeMetricFamily("bomkl_source_lag", "Records in the broker that were not read yet.", source["lag"])
            for name, text in (("records", "Records read."), ("dead_letters", "Records that could not be used.")):
                yield CounterMetricFamily(f"bomkl_source_{name}", text, source[name])
        weights = GaugeMetricFamily("bomkl_kernel_weight", "Weight of each kernel.", labels=["kernel"])
        for kernel, weight in zip(state["kernels"], state["kernel_weights"], strict=True):
            weights.add_metric([kernel], weight)
        yield weights
