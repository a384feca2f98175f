"""Bodies of requests: JSON, JSON lines and Arrow."""
