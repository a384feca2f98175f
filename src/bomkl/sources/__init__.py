"""Brokers as sources of rows. Records have positions; a model that keeps them learns from each record exactly once."""

from bomkl.sources.base import Record, Sink, Source, SourceError, SourceUrl, open_sink, open_source

__all__ = ["Record", "Sink", "Source", "SourceError", "SourceUrl", "open_sink", "open_source"]
