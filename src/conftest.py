"""Modules whose extra is not among those for development are left out where it is not installed."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("torch") else ["bomkl/auto/gpu"]
