"""File formats: how each is told from the others, and one module for each reader."""
