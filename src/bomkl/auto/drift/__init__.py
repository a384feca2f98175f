"""Layers for streams that change."""
