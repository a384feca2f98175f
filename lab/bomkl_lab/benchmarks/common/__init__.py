"""What the benchmarks share: how to measure, what to measure against, and generated data."""
