"""Requests: how many, how fast, and what was answered."""

from __future__ import annotations

import bisect
import time
from collections import Counter, defaultdict, deque
from typing import Any

import numpy as np

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SAMPLES = 300


class Traffic:
    """Counts requests; one sample a second is kept for five minutes."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.histogram: dict[str, list[int]] = {}
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.samples: deque[dict[str, float | None]] = deque(maxlen=_SAMPLES)
        self.predicted = 0
        self._latencies: deque[float] = deque(maxlen=10_000)  # since the last sample
        self._before: tuple[float, int, int] | None = None

    def count(self, route: str, status: int, seconds: float) -> None:
        """Count one request."""
        self.requests[route, status] += 1
        self.seconds[route] += seconds
        self.histogram.setdefault(route, [0] * (len(BUCKETS) + 1))[bisect.bisect_left(BUCKETS, seconds)] += 1
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

    def metrics(self) -> list[str]:
        """Lines of the Prometheus text format."""
        lines = ["# HELP bomkl_requests_total Requests by route and status.", "# TYPE bomkl_requests_total counter"]
        for (route, status), count in sorted(self.requests.items()):
            lines.append(f'bomkl_requests_total{{route="{route}",status="{status}"}} {count}')
        name = "bomkl_request_seconds"
        lines += [f"# HELP {name} Seconds from a request to its answer.", f"# TYPE {name} histogram"]
        for route, counts in sorted(self.histogram.items()):
            total = 0
            for bound, count in zip((*BUCKETS, "+Inf"), counts, strict=True):
                total += count
                lines.append(f'{name}_bucket{{route="{route}",le="{bound}"}} {total}')
            lines.append(f'{name}_sum{{route="{route}"}} {self.seconds[route]}')
            lines.append(f'{name}_count{{route="{route}"}} {total}')
        return lines


def gauges(state: dict[str, Any]) -> list[str]:
    """Figures of the model as lines of the Prometheus text format."""
    plain = {
        "rows_learned_total": ("counter", "Rows learned.", state["rows"]),
        "rows_refused_total": ("counter", "Rows in the log that the model refused.", state["refused"]),
        "rows_expired_total": ("counter", "Rows that were forgotten without a label.", state["labels"]["expired"]),
        "rows_waiting": ("gauge", "Rows that wait for their label.", state["labels"]["waiting"]),
        "rows_queued": ("gauge", "Rows that wait to be learned or predicted.", state["queued"]),
        "error": ("gauge", "Mean error of all rows, each predicted before it was learned from.", state["error"]),
        "window_error": ("gauge", "Mean error of the last 1000 rows.", state["window_error"]),
        "baseline_error": ("gauge", "Mean error of the baseline.", state["baseline_error"]),
        "drift": ("gauge", "1 while the last 1000 rows have more errors than expected.", int(state["drift"]["now"])),
        "model_bytes": ("gauge", "Memory of the learned arrays.", state["memory"]["model_bytes"]),
    }
    lines = []
    for name, (kind, help_text, value) in plain.items():
        lines += [f"# HELP bomkl_{name} {help_text}", f"# TYPE bomkl_{name} {kind}", f"bomkl_{name} {value}"]
    lines += ["# HELP bomkl_kernel_weight Weight of each kernel.", "# TYPE bomkl_kernel_weight gauge"]
    for kernel, weight in zip(state["kernels"], state["kernel_weights"], strict=True):
        escaped = kernel.replace("\\", r"\\").replace('"', r"\"")
        lines.append(f'bomkl_kernel_weight{{kernel="{escaped}"}} {weight}')
    return lines
