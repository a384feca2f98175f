"""Missing values of a table, filled in."""
