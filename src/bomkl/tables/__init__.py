"""Tables of numbers, categories, missing values and dates as rows of numbers, encoded while they stream."""

from bomkl.tables.encoder import TableEncoder

__all__ = ["TableEncoder"]
