"""The columns of a table as columns of numbers."""
