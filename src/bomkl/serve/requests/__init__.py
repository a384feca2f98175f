"""Requests on their way: grouped, written to the log, learned from, predicted."""
