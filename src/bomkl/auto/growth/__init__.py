"""Capacity that grows with the stream: a sample of coded rows, trees grown from it, and a network that replays it."""
